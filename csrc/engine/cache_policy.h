// Which rows a rank's cache admits and which it evicts. One policy object per rank, or for all that share a plan.
//
// The engine's planner is the only caller, in the order of steps and ahead of them, of each part from one thread at a
// time; so a policy needs no lock and never sees the device. The planner itself knows which row lies in which slot: a
// policy only says which slot comes next, and keeps what it needs for that. Every cached row is dirty (a step writes
// each row it reads), so every evicted row is written back. Whatever a policy answers, the trained table has the same
// bits; only speed depends on it.
//
// Calls for one step t: touch() for every row of t that this cache holds and keeps, unless the policy keeps rows for
// good and nobody else plans, and release() for rows that leave because another rank reads them, in no order; then
// admit() for the rows of t that this rank alone uses, reads from host and wants(), in ascending order of rows. Of a
// policy in parts that is so for each part, and parts may be called by threads at once.
#pragma once

#include <cstdint>
#include <limits>

namespace frugal {

inline constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();  // a step that is not in sight

inline constexpr std::int32_t kRejected = -1;  // a row that a cache does not admit

// A step uses a row.
struct RowUse {
  std::int64_t row, step;
  std::int32_t count = 0;  // how many steps of this rank have used the row, with this one; 65535 at most
};

class CachePolicy {
 public:
  virtual ~CachePolicy() = default;

  // Number of slots of the cache; slots are 0 .. slots() - 1. Constant.
  virtual std::int64_t slots() const = 0;

  // Parts that share nothing, a power of two of them: a row's part is its remainder by their number, and no slot is for
  // rows of two parts. Constant.
  virtual int parts() const { return 1; }

  // Whether RowUse::count should be worked out. Constant.
  virtual bool wants_count() const { return false; }

  // The row lies in `slot` and stays there.
  virtual void touch(const RowUse& use, std::int32_t slot) = 0;

  // Whether a row that came in stays for good: touch() does nothing then, and admit() never evicts. Constant.
  virtual bool keeps_for_good() const { return false; }
  // Of such a policy: whether admit() might admit `row`. Any thread may ask, while no other call runs.
  virtual bool wants(std::int64_t /*row*/) const { return true; }
  // A thread will ask that of `row` a few calls from now: asks for the memory that this will read. Changes nothing.
  virtual void prefetch_wants(std::int64_t /*row*/) const {}

  // `row`, which it wants, will be offered to admit() a few calls from now: likewise.
  virtual void prefetch(std::int64_t /*row*/) const {}
  // `row`, which lies in `slot`, will be touched some calls from now: likewise.
  virtual void prefetch_touch(std::int64_t /*row*/, std::int32_t /*slot*/) const {}

  // The step reads the row from host; is it kept from now on? The slot where it goes, or kRejected. A row that lies
  // there makes way; none does that was touched or admitted with this very step.
  virtual std::int32_t admit(const RowUse& use) = 0;

  // The row has left its slot for another reason than admit(); the slot is free.
  virtual void release(std::int64_t row, std::int32_t slot) = 0;
};

}  // namespace frugal
