// Decides, step by step and for all ranks at once, where each read is served and what travels afterwards (docs/p2f.md).
//
// A row has one current place: host memory, or a slot of one rank's cache. The planner is the only one who knows and
// moves places; it runs up to lookahead + 1 steps ahead of the ranks, in one thread. What is known of each row alone is
// looked up by several threads, each a range of the list, and so are the parts of a cache that share nothing; what a
// plan says does not depend on their number.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/huge_pages.h"
#include "base/parallel/task_team.h"
#include "base/parallel/thread_safety.h"
#include "engine/config.h"
#include "engine/given_rows.h"
#include "engine/p2f/inbox.h"
#include "engine/recent_changes.h"
#include "engine/row_cells.h"
#include "engine/row_lookup.h"
#include "engine/row_map.h"
#include "engine/row_sharing.h"
#include "engine/segment.h"
#include "engine/upcoming_rows.h"
#include "engine/write_back_buffer.h"

namespace frugal {

class Planner {
 public:
  // given: of a rank whose steps alone are planned; nullptr: all rows are copied when they are registered.
  Planner(const EngineConfig& config, std::shared_ptr<Segment> segment, std::vector<Inbox*> inboxes,
          std::shared_ptr<GivenRows> given = nullptr);
  ~Planner();

  // The planner's thread: until `stopping`, or until the engine fails.
  void run(const std::atomic<bool>& stopping);

  std::int64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  // Of one for caches of so many slots together, whose policies want RowUse::count or not.
  static std::int64_t bytes_of(const SegmentShape& shape, std::int64_t slots, bool counts);
  std::int64_t nanoseconds() const { return nanoseconds_.load(std::memory_order_relaxed); }

 private:
  struct Slot {
    std::int64_t row = -1;
    std::int64_t since = -1;  // last planned step that touches the row
  };
  struct User {
    std::int32_t rank;
    std::int64_t index;  // of the row in the rank's list
  };
  struct Admitted {
    User user;
    std::int32_t place;
    std::int64_t evicted;  // the row that lay there; -1: none did
  };
  // A write-back.
  struct Leaving {
    WriteBack request;
    std::int64_t due, position;
    std::int32_t rank;
  };
  // What one thread decides of a step: for one part of a rank's cache (CachePolicy::parts), or for all ranks. Aligned,
  // or threads would write into each other's lines.
  struct alignas(128) Share {
    std::int64_t part = 0, parts = 1;
    std::vector<std::int64_t> chosen;  // of a list, by of()
    std::vector<User> candidates;      // rows that a cache may admit
    std::vector<Admitted> admitted;    // those of them that it admits
    std::vector<Leaving> leaving, waiting;  // write-backs, and those for which steps have still to run
    std::exception_ptr error;

    // Those of a list of indices whose rows are of this part, until the next call.
    std::span<const std::int64_t> of(std::span<const std::int64_t> indices, const std::int64_t* rows);
  };
  // One rank's part of the step that is being decided.
  struct Part {
    const std::int64_t* rows;                 // as registered
    const std::int32_t* occurrences;          // entry after entry
    std::int64_t count;
    std::vector<std::int32_t> counts;         // of uses, by index, if a policy wants to know
    std::vector<LocatedRows> located;         // of ranges of the list, in their order
    std::vector<std::int64_t> padded;         // of each cell: where the padding behind its last step's rows begins
    std::vector<std::int64_t> shared;         // indices of rows that others have, too
    std::size_t head;                         // of their merge: the next one to visit
    std::int32_t* source;                     // the plan
    RowDestination* leave;
    std::int64_t *target, *evicted;           // the latter only with evicts_to_buffer
    std::int64_t begin = 0, end = 0;  // positions in staging
    std::int64_t records = 0;
    std::int32_t first_place;          // of its cache slots
    CachePolicy* cache;                // nullptr: none
    std::uint64_t requested;           // write-backs

    void plan(std::int64_t index, RowDestination how, std::int64_t where) const {
      leave[index] = how;
      target[index] = where;
    }
  };

  bool ready(std::int64_t step) const;
  void decide(std::int64_t step) FRUGAL_REQUIRES(thread_);
  void locate() FRUGAL_REQUIRES(thread_);
  void locate_alone() FRUGAL_REQUIRES(thread_);
  void locate_among_ranks() FRUGAL_REQUIRES(thread_);
  void see_sharing(std::int64_t step) FRUGAL_REQUIRES(thread_);
  std::int64_t ranges_of(std::int64_t count) const;  // of a list of so many rows, that threads may take
  // work(rows) of ranges of a list, by threads.
  void in_list(const std::int64_t* rows, std::int64_t count,
               const std::function<void(std::span<const std::int64_t>)>& work) const;
  template <class Work>
  void in_ranges(const Work& work) FRUGAL_REQUIRES(thread_);  // work(part, rank, range, begin, end) of all lists, by
                                                              // threads
  void in_tasks(std::int64_t tasks, const std::function<void(std::int64_t)>& task) const;
  void leave_for_buffer() FRUGAL_REQUIRES(thread_);
  void leave_among_ranks() FRUGAL_REQUIRES(thread_);
  void in_shares() FRUGAL_REQUIRES(thread_);
  void visit_rank(Share& share, std::int32_t rank) FRUGAL_REQUIRES(thread_);
  void visit_found(Share& share, std::int32_t rank, std::span<const std::int64_t> found) FRUGAL_REQUIRES(thread_);
  void visit_shared() FRUGAL_REQUIRES(thread_);
  void hit(std::int32_t rank, std::int64_t index) FRUGAL_REQUIRES(thread_);
  void miss(std::int64_t row) FRUGAL_REQUIRES(thread_);
  void pull_back(Share& share, std::int64_t row, std::int32_t place, std::span<const User> users)
      FRUGAL_REQUIRES(thread_);
  std::int32_t changed_place(const User& user) const FRUGAL_REQUIRES(thread_);
  void admit_candidates(Share& share) FRUGAL_REQUIRES(thread_);
  void prefetch_candidate(const User& user) FRUGAL_REQUIRES(thread_);
  void admit(Share& share, Admitted& admitted) FRUGAL_REQUIRES(thread_);
  void evict(const Admitted& admitted) FRUGAL_REQUIRES(thread_);
  void write_back(Share& share, std::int32_t rank, std::int32_t place, std::int64_t due) FRUGAL_REQUIRES(thread_);
  void request_write_backs() FRUGAL_REQUIRES(thread_);
  void request(std::span<const Leaving> leaving) FRUGAL_REQUIRES(thread_);
  void send_value(std::int32_t rank, std::int64_t index) FRUGAL_REQUIRES(thread_);
  void send_gradients(std::int64_t row, std::span<const User> users) FRUGAL_REQUIRES(thread_);
  void stage_gradients(std::span<const User> users) FRUGAL_REQUIRES(thread_);
  void finish() FRUGAL_REQUIRES(thread_);
  void pad(Part& mine, std::int64_t* rows, std::int32_t scratch) FRUGAL_REQUIRES(thread_);
  std::int64_t allocate(std::int32_t rank, std::int64_t floats) FRUGAL_REQUIRES(thread_);
  std::int64_t record_due(std::int64_t due) const FRUGAL_REQUIRES(thread_);
  bool is_cached(std::int32_t place) const FRUGAL_REQUIRES(thread_) {
    return static_cast<std::uint32_t>(place) < slots_.size();
  }
  std::int32_t rank_of(std::int32_t place) const FRUGAL_REQUIRES(thread_);
  Part& part(std::int32_t rank) FRUGAL_REQUIRES(thread_) { return parts_[static_cast<std::size_t>(rank)]; }
  void start(std::int64_t step) FRUGAL_REQUIRES(thread_);
  void take_given() FRUGAL_REQUIRES(thread_);
  void see_upcoming() FRUGAL_REQUIRES(thread_);
  RowUse use(const Part& mine, std::int64_t index) const FRUGAL_REQUIRES(thread_);
  StepOperations& operations_of(std::int64_t row) const FRUGAL_REQUIRES(thread_);

  bool keeps_records() const { return !shape_.reads_follow_stores(); }
  bool plans_as_found() const { return shape_.plans == 1 && caching_ && !keeps_records(); }  // see RowLookup

  const std::shared_ptr<Segment> segment_;
  const SegmentShape shape_;
  const std::vector<Inbox*> inboxes_;
  const std::shared_ptr<GivenRows> given_;
  const bool caching_, static_cache_;  // static_cache_: nothing of what is found of a row depends on another one
  const std::int64_t horizon_;

  std::unique_ptr<TaskTeam> lookups_;  // nullptr: the planner's thread does it alone

  ThreadRole thread_;  // the thread in run()
  std::int64_t step_ FRUGAL_GUARDED_BY(thread_) = 0;
  std::int64_t taken_ FRUGAL_GUARDED_BY(thread_) = 0;  // steps whose rows are in the segment, with one plan
  RowCells cells_ FRUGAL_GUARDED_BY(thread_);
  LargeArray<Slot> slots_ FRUGAL_GUARDED_BY(thread_);                // by place: of all caches, one behind the other
  std::vector<Part> parts_ FRUGAL_GUARDED_BY(thread_);               // per rank
  std::vector<Share> shares_ FRUGAL_GUARDED_BY(thread_);             // at least one
  std::vector<User> users_ FRUGAL_GUARDED_BY(thread_);
  WriteBackBuffer buffer_ FRUGAL_GUARDED_BY(thread_);  // none where values are stored within their step
  UpcomingRows upcoming_ FRUGAL_GUARDED_BY(thread_);    // of the steps for which values may stay in it
  RecentChanges recent_ FRUGAL_GUARDED_BY(thread_);     // with in-step synchronisation
  // Of ranks that each have steps of their own: which rows they share, in this step and the next.
  RowSharing sharing_[2] FRUGAL_GUARDED_BY(thread_);
  RowSharing& sharing(std::int64_t step) FRUGAL_REQUIRES(thread_) { return sharing_[step % 2]; }
  std::atomic<std::int64_t> bytes_{0}, nanoseconds_{0};
};

// Which flush worker owns a row.
inline std::int32_t worker_of(std::int64_t row, std::int32_t workers) {
  // Not the bits that index a flush worker's map, or its cells would fill unevenly.
  return static_cast<std::int32_t>(((hash_row(row) & 0xFFFFFFFFull) * static_cast<std::uint64_t>(workers)) >> 32);
}

}  // namespace frugal
