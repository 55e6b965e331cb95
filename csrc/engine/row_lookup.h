// Where the rows of a step are before it: what the planner finds out about each row alone, so that threads share it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/cache_policy.h"
#include "engine/plan.h"
#include "engine/row_map.h"
#include "engine/row_set.h"

namespace frugal {

// Of a cached row.
struct Place {
  std::int32_t rank, slot;
};

// A range of one rank's list of rows. Indices are into the whole list, ascending.
struct LocatedRows {
  std::vector<std::int64_t> found, missed;  // rows that are in a cache, and the others
  std::vector<Place> places;                // of those found
};

// Only reads what it is made from, so threads may look up ranges of one list at once.
class RowLookup {
 public:
  // cached: the rows that `directory` has a place for; nullptr: there are no caches.
  RowLookup(const RowSet* cached, const RowMap<Place>& directory) : cached_(cached), directory_(directory) {}

  // The rows [begin, end) of the list, without a branch on the data, which nobody could predict; sets their source to
  // kFromHost. arriving(place): is called for each row in a cache, to ask for the memory that visiting it will touch.
  template <class Arriving>
  void locate(const std::int64_t* rows, std::int64_t begin, std::int64_t end, std::int32_t* source,
              LocatedRows& located, Arriving arriving) const {
    const auto count = static_cast<std::size_t>(end - begin);
    located.found.resize(count + 1);
    located.missed.resize(count + 1);
    std::size_t found = 0, missed = 0;
    for (std::int64_t i = begin; i < end; ++i) {
      if (cached_ != nullptr && i + kPrefetch < end) cached_->prefetch(rows[i + kPrefetch]);
      const bool cached = cached_ != nullptr && cached_->has(rows[i]);
      located.found[found] = located.missed[missed] = i;
      source[i] = kFromHost;
      found += cached;
      missed += !cached;
    }
    located.found.resize(found);
    located.missed.resize(missed);
    located.places.resize(found);
    constexpr auto kAhead = static_cast<std::size_t>(kPrefetch);
    for (std::size_t f = 0; f < std::min(kAhead, found); ++f) directory_.prefetch(rows[located.found[f]]);
    for (std::size_t f = 0; f < found; ++f) {
      if (f + kAhead < found) directory_.prefetch(rows[located.found[f + kAhead]]);
      located.places[f] = *directory_.find(rows[located.found[f]]);
      arriving(located.places[f]);
    }
  }

  // Plans the range for a rank alone whose policy keeps rows for good and who stores the others into their host rows:
  // nothing there depends on another row. Leaves in `missed` the rows that the policy may take in.
  void plan_settled(const std::int64_t* rows, const CachePolicy& policy, LocatedRows& located, std::int32_t* source,
                    RowDestination* leave, std::int64_t* target) const {
    for (std::size_t f = 0; f < located.found.size(); ++f) {
      const std::int64_t i = located.found[f];
      source[i] = located.places[f].slot;
      leave[i] = RowDestination::kCache;
      target[i] = located.places[f].slot;
    }
    std::size_t wanted = 0;
    const std::size_t missed = located.missed.size();
    constexpr auto kAhead = static_cast<std::size_t>(kPrefetch);
    for (std::size_t m = 0; m < missed; ++m) {
      if (m + kAhead < missed) policy.prefetch(rows[located.missed[m + kAhead]]);
      const std::int64_t i = located.missed[m];
      leave[i] = RowDestination::kHostRow;
      target[i] = rows[i];
      located.missed[wanted] = i;
      wanted += policy.wants(rows[i]);
    }
    located.missed.resize(wanted);
  }

 private:
  // Rows ahead that memory is asked for: enough misses at a time to hide most of each.
  static constexpr std::int64_t kPrefetch = 24;

  const RowSet* cached_;
  const RowMap<Place>& directory_;
};

}  // namespace frugal
