// Which rows the steps of several ranks use, as each row's owner gets to know them. Row r belongs to rank r % ranks,
// which works on it for all ranks.
//
// Each rank posts the rows of its steps, in the order of steps, some steps ahead; and takes, of each step, the rows
// that it owns, of all ranks in their order. A cell of a rank has room for one step, and is used again when all ranks
// have taken that step. A rank that only posts does not wait as long as no rank is more than `steps` ahead of another;
// so ranks that look ahead differently far do not wait for each other in a circle.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/parallel/shared_mapping.h"
#include "comm/host_exchange.h"
#include "comm/row_exchange.h"

namespace frugal {

class OwnerLists {
 public:
  // segment: of bytes_needed(...) bytes, 128-byte aligned, zeroed before the first rank comes, the same memory for all
  // ranks, whose processes are watched; must outlive this. steps: that a rank may post before another has taken the
  // first. max_rows: of a step. Throws std::invalid_argument for what does not fit.
  OwnerLists(std::byte* segment, std::size_t bytes, int rank, int ranks, std::int64_t steps, std::int64_t max_rows);
  ~OwnerLists();
  OwnerLists(const OwnerLists&) = delete;
  OwnerLists& operator=(const OwnerLists&) = delete;

  static std::size_t bytes_needed(int ranks, std::int64_t steps, std::int64_t max_rows);

  // Tells all ranks by which handle, of at most kMostHandleBytes, they reach what this one lets them write to.
  static constexpr std::size_t kMostHandleBytes = 256;
  void introduce(const std::string& handle);
  const std::uint32_t* failed() const { return &failure_->failed; }  // as RankWords have it

  // What follows throws std::runtime_error with the sentence of whoever failed, or of a rank that has gone.

  // Of all ranks, in their order; waits until each has introduced itself.
  std::vector<std::string> handles();
  // Looks whether the other ranks are still there, for who waits elsewhere. Any thread may, at any time.
  void look();
  // This rank's next step uses `rows`: the rows of owner 0 come first, then the rows of owner 1, ... Waits for room.
  void post(std::span<const std::int64_t> rows);
  // Whether `take` would return at once.
  bool ready();
  // Of the next step that this rank has not taken: the rows that it owns, those of rank 0 first, and whose they are.
  OwnedRows take(std::vector<std::int64_t>& rows);
  // This rank runs its next step.
  void begin();
  // Between two steps: waits until all ranks have come here. A rank that goes on with its next step instead fails.
  void meet();
  // Ends the waiting of all ranks, with the first sentence that anybody gives.
  void fail(const std::string& sentence) { failure_->fail(sentence); }

 private:
  struct alignas(kExchangeLine) Rank {
    std::uint64_t posted, taken, begun, met;
    std::int32_t pid;  // 0: not there yet; -1: it has left
    std::uint32_t handle_bytes;  // 0: none yet
    char handle[kMostHandleBytes];
  };

  Rank& word(int rank) { return words_[rank]; }
  std::int64_t* cell(int rank, std::int64_t step);
  // Until ready(other rank) holds for all others.
  template <class Ready>
  void wait(Ready ready);
  void check();
  void look_at(int rank);

  ExchangeWords* failure_;
  Rank* words_;
  std::int64_t* cells_;
  const int rank_, ranks_;
  const std::int64_t steps_, max_rows_;
  std::int64_t posted_ = 0, taken_ = 0, begun_ = 0, met_ = 0;
  std::mutex looking_;                   // who looks in the background, and who waits
  std::vector<OtherProcess> processes_;  // of the ranks
};

}  // namespace frugal
