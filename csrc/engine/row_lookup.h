// Where the rows of a step are before it: what the planner finds out about each row alone, so that threads share it.
//
// A place is a number for each row of the table: the cache slot where it lies, the slot behind the cache where its value
// waits on its way home (in_flight_slots.h), or kFromHost. It is one load away, which can be asked for rows ahead.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/cache_policy.h"
#include "engine/in_flight_slots.h"
#include "engine/plan.h"
#include "memory/huge_pages.h"

namespace frugal {

using RowPlaces = LargeArray<std::int32_t>;

// A range of one rank's list of rows. Indices are into the whole list, ascending.
struct LocatedRows {
  std::vector<std::int64_t> found, missed;  // rows that are in a cache, and the others
};

// Threads may look up ranges of one list at once, whose rows are distinct.
class RowLookup {
 public:
  // places: empty where nothing is cached and nothing waits. cache_slots: places below it are cache slots.
  RowLookup(RowPlaces& places, std::int64_t cache_slots, const InFlightSlots& in_flight, std::int64_t step)
      : places_(places),
        cache_slots_(static_cast<std::uint32_t>(cache_slots)),
        in_flight_(in_flight),
        first_in_flight_(in_flight.first_slot(step)) {}

  // The rows [begin, end) of the list, without a branch on the data, which nobody could predict: their source is where
  // they are. What is not cached will be in the step's slots in flight, if there are any, unless a cache takes it in.
  void locate(const std::int64_t* rows, std::int64_t begin, std::int64_t end, std::int32_t* source,
              LocatedRows& located) const {
    located.found.resize(static_cast<std::size_t>(end - begin) + 1);
    located.missed.resize(static_cast<std::size_t>(end - begin) + 1);
    std::size_t found = 0, missed = 0;
    const bool nowhere = places_.empty(), flies = in_flight_.any();
    for (std::int64_t i = begin; i < std::min(end, begin + kPrefetch) && !nowhere; ++i) prefetch(rows[i]);
    for (std::int64_t i = begin; i < end; ++i) {
      if (i + kPrefetch < end && !nowhere) prefetch(rows[i + kPrefetch]);
      const std::int32_t place = nowhere ? kFromHost : places_[at(rows[i])];
      const bool cached = static_cast<std::uint32_t>(place) < cache_slots_;
      if (flies) places_[at(rows[i])] = cached ? place : first_in_flight_ + static_cast<std::int32_t>(i);
      source[i] = cached || in_flight_.holds(place, rows[i]) ? place : kFromHost;
      located.found[found] = located.missed[missed] = i;
      found += cached;
      missed += !cached;
    }
    located.found.resize(found);
    located.missed.resize(missed);
  }

  // Plans the range for a rank alone whose policy keeps rows for good and who stores the others into their host rows:
  // nothing there depends on another row. Leaves in `missed` the rows that the policy may take in.
  static void plan_settled(const std::int64_t* rows, const CachePolicy& policy, LocatedRows& located,
                           const std::int32_t* source, RowDestination* leave, std::int64_t* target) {
    for (const std::int64_t i : located.found) {
      leave[i] = RowDestination::kCache;
      target[i] = source[i];
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

  static std::size_t at(std::int64_t row) { return static_cast<std::size_t>(row); }
  void prefetch(std::int64_t row) const { __builtin_prefetch(&places_[at(row)], 1); }

  RowPlaces& places_;
  const std::uint32_t cache_slots_;
  const InFlightSlots& in_flight_;
  const std::int32_t first_in_flight_;
};

}  // namespace frugal
