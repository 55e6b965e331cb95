// Where values wait that steps have updated and that are still on their way to their host rows.
//
// Where reads follow stores, a device need not store a value into its host row within the step: it leaves it in a slot
// behind the cache, from where it goes home beside the next steps, which find it in the slot. A step has max_rows slots,
// one for each row of its list, and the step `steps` later has the same ones: by then what they hold has to be at home.
// A row's newest value is in its slot until another row takes that, or a step uses the row and decides anew where it is.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/plan.h"
#include "memory/huge_pages.h"

namespace frugal {

class InFlightSlots {
 public:
  // For a table of `rows` rows, of which 4 bytes each are kept. Slots [first_slot, first_slot + steps * max_rows).
  InFlightSlots(std::int64_t rows, std::int64_t first_slot, std::int64_t max_rows, std::int64_t steps)
      : first_slot_(first_slot),
        max_rows_(max_rows),
        slot_of_row_(static_cast<std::size_t>(rows)),
        row_in_slot_(static_cast<std::size_t>(steps * max_rows), kNone) {}

  // For each i of `missed`: source[i] = the slot of rows[i] if its newest value is in one, else kFromHost. Threads may
  // look up parts of one step at once.
  void find(const std::int64_t* rows, std::span<const std::int64_t> missed, std::int32_t* source) const {
    const std::size_t count = missed.size();
    for (std::size_t m = 0; m < std::min(kAhead, count); ++m) __builtin_prefetch(&slot_of_row_[at(rows[missed[m]])]);
    for (std::size_t m = 0; m < count; ++m) {
      if (m + kAhead < count) __builtin_prefetch(&slot_of_row_[at(rows[missed[m + kAhead]])]);
      const std::int64_t i = missed[m];
      const std::int32_t slot = slot_of_row_[at(rows[i])];
      // Without a branch on the data, which nobody could predict.
      const std::int32_t nowhere = -static_cast<std::int32_t>(row_in_slot_[at(slot)] != rows[i]);
      static_assert(kFromHost == -1);
      source[i] = (static_cast<std::int32_t>(first_slot_) + slot) | nowhere;
    }
  }

  // The running step takes the row into the cache.
  void forget(std::int64_t row) {
    std::int64_t& held = row_in_slot_[at(slot_of_row_[at(row)])];
    if (held == row) held = kNone;
  }

  // When all rows of the step have been found: rows [begin, end) of its list that leave for their host rows leave for
  // slots, which become their targets. Threads may take parts of one step at once.
  void leave(std::int64_t step, const std::int64_t* rows, std::int64_t begin, std::int64_t end,
             const RowDestination* leave, std::int64_t* target) {
    const std::int64_t first = step * max_rows_ % static_cast<std::int64_t>(row_in_slot_.size());
    for (std::int64_t i = begin; i < end; ++i) {
      if (leave[i] != RowDestination::kHostRow) continue;
      const std::int64_t slot = first + i;
      target[i] = first_slot_ + slot;
      slot_of_row_[at(rows[i])] = static_cast<std::int32_t>(slot);
      row_in_slot_[at(slot)] = rows[i];
    }
  }

  std::size_t bytes() const {
    return slot_of_row_.size() * sizeof(std::int32_t) + row_in_slot_.size() * sizeof(std::int64_t);
  }

 private:
  static constexpr std::int64_t kNone = -1;
  static constexpr std::size_t kAhead = 24;  // rows that are looked up ahead: those of a large table are not in caches

  static std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

  const std::int64_t first_slot_, max_rows_;
  LargeArray<std::int32_t> slot_of_row_;   // that it left for last, from 0; it counts if the row is still in there
  std::vector<std::int64_t> row_in_slot_;  // that took it last, unless a cache has taken it in since; kNone
};

}  // namespace frugal
