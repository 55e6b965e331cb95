// Where the rows of a step are before it, and how often they are used: what the planner finds out about each row alone,
// so that threads share it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/cache_policy.h"
#include "engine/plan.h"
#include "engine/recent_changes.h"
#include "engine/row_cells.h"
#include "engine/row_sharing.h"
#include "engine/step_counts.h"
#include "engine/write_back_buffer.h"

namespace frugal {

// A range of one rank's list of rows. Indices are into the whole list, ascending.
struct LocatedRows {
  std::vector<std::int64_t> found, missed;  // rows that are in a cache, and the others
  std::vector<std::int64_t> shared;         // of several ranks: rows that others have, too, which are not in those
  StepCounts counts = {};                   // when all is planned
};

// Threads may look up ranges of one list at once, whose rows are distinct.
class RowLookup {
 public:
  // cache_slots: places below it are cache slots.
  RowLookup(RowCells& cells, std::int64_t cache_slots, const WriteBackBuffer& buffer, std::int64_t step)
      : cells_(cells),
        cache_slots_(static_cast<std::uint32_t>(cache_slots)),
        buffer_(buffer),
        first_buffer_slot_(buffer.first_slot(step)),
        step_(step) {}

  // The rows [begin, end) of the list, without a branch on the data, which nobody could predict: their source is where
  // they are. What is not cached will be in the step's slots of the write-back buffer, if there are any,
  // unless a cache admits it.
  // counts: of uses by the list's rank; nullptr if nobody wants to know.
  void locate(const std::int64_t* rows, std::int64_t begin, std::int64_t end, int rank, std::int32_t* source,
              std::int32_t* counts, LocatedRows& located) const {
    located.found.resize(static_cast<std::size_t>(end - begin) + 1);
    located.missed.resize(static_cast<std::size_t>(end - begin) + 1);
    std::size_t found = 0, missed = 0;
    const bool nowhere = cells_.empty(), flies = buffer_.any();
    for (std::int64_t i = begin; i < end; ++i) {
      if (i + kPrefetch < end && !nowhere) cells_.prefetch(rows[i + kPrefetch]);
      const std::int32_t place = nowhere ? kFromHost : cells_.place(rows[i]);
      const bool cached = static_cast<std::uint32_t>(place) < cache_slots_;
      if (flies) cells_.place(rows[i]) = cached ? place : first_buffer_slot_ + static_cast<std::int32_t>(i);
      if (counts != nullptr) counts[i] = cells_.count_use(rows[i], rank);
      source[i] = cached || buffer_.holds(place, rows[i]) ? place : kFromHost;
      located.found[found] = located.missed[missed] = i;
      found += cached;
      missed += !cached;
    }
    located.found.resize(found);
    located.missed.resize(missed);
  }

  // The same for one of several ranks that do not have the same steps. What it has alone and no cache holds is planned
  // to leave for its host row, and its place is that of its recent change, if there are such; rows that others have are
  // not planned, and their places stay.
  void locate_among_ranks(const std::int64_t* rows, std::int64_t begin, std::int64_t end, int rank,
                          const RowSharing& sharing, const RecentChanges& recent, std::int32_t* source,
                          RowDestination* leave, std::int64_t* target, std::int32_t* counts,
                          LocatedRows& located) const {
    for (std::vector<std::int64_t>* list : {&located.found, &located.missed, &located.shared})
      list->resize(static_cast<std::size_t>(end - begin) + 1);
    std::size_t found = 0, missed = 0, shared = 0;
    const bool nowhere = cells_.empty(), keeps_changes = recent.any();
    const std::int32_t first_change = recent.first_place(step_, rank);
    for (std::int64_t i = begin; i < end; ++i) {
      if (i + kPrefetch < end && !nowhere) cells_.prefetch(rows[i + kPrefetch]);
      const std::int32_t place = nowhere ? kFromHost : cells_.place(rows[i]);
      const bool cached = static_cast<std::uint32_t>(place) < cache_slots_;
      const bool alone = !sharing.others_have(rank, rows[i]);
      if (keeps_changes && alone && !cached) cells_.place(rows[i]) = first_change + static_cast<std::int32_t>(i);
      if (counts != nullptr) counts[i] = cells_.count_use(rows[i], rank);
      source[i] = cached ? place : recent.source(place, rows[i], rank);
      leave[i] = RowDestination::kHostRow;
      target[i] = rows[i];
      located.found[found] = located.missed[missed] = located.shared[shared] = i;
      found += alone && cached;
      missed += alone && !cached;
      shared += !alone;
    }
    located.found.resize(found);
    located.missed.resize(missed);
    located.shared.resize(shared);
  }

  // Leaves in `missed` the rows that a policy which keeps rows for good may admit.
  void only_wanted(const std::int64_t* rows, const CachePolicy& policy, LocatedRows& located) const {
    std::size_t wanted = 0;
    const std::size_t missed = located.missed.size();
    constexpr auto kAhead = static_cast<std::size_t>(kPrefetch);
    for (std::size_t m = 0; m < missed; ++m) {
      if (m + kAhead < missed) policy.prefetch_wants(rows[located.missed[m + kAhead]]);
      const std::int64_t i = located.missed[m];
      located.missed[wanted] = i;
      wanted += policy.wants(rows[i]);
    }
    located.missed.resize(wanted);
  }

  // Plans the range for a rank alone who stores rows that no cache has into their host rows, as if its cache admitted
  // none.
  void plan_in_place(const std::int64_t* rows, std::int64_t begin, std::int64_t end, const std::int32_t* source,
                     RowDestination* leave, std::int64_t* target) const {
    for (std::int64_t i = begin; i < end; ++i) {
      const bool cached = static_cast<std::uint32_t>(source[i]) < cache_slots_;
      leave[i] = cached ? RowDestination::kCache : RowDestination::kHostRow;
      target[i] = cached ? source[i] : rows[i];
    }
  }

 private:
  // Rows ahead that memory is asked for: enough misses at a time to hide most of each.
  static constexpr std::int64_t kPrefetch = 24;

  RowCells& cells_;
  const std::uint32_t cache_slots_;
  const WriteBackBuffer& buffer_;
  const std::int32_t first_buffer_slot_;
  const std::int64_t step_;
};

}  // namespace frugal
