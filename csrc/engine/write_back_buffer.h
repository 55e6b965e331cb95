// The write-back buffer: slots for values that steps have updated and that are not in their host rows yet.
//
// Where reads follow stores, a device need not store a value into its host row within the step. It leaves the value
// in a slot behind the cache, from where it is written back while the next steps run, which read it in the slot. A
// step has max_rows slots, one for each row of its list, and the step `steps` later reuses them: by then their values
// have to be in the host rows. A row's newest value is in its slot until another row takes the slot, or a step uses
// the row and decides anew where its value is. So a value whose row a step uses before its slot is reused need not be
// written back before that step: it stays, as in a cache slot.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/plan.h"
#include "engine/upcoming_rows.h"

namespace frugal {

class WriteBackBuffer {
 public:
  // Slots [first_slot, first_slot + steps * max_rows); steps may be 0.
  WriteBackBuffer(std::int64_t first_slot, std::int64_t max_rows, std::int64_t steps)
      : first_slot_(static_cast<std::int32_t>(first_slot)),
        max_rows_(max_rows),
        slots_(static_cast<std::uint32_t>(steps * max_rows)),
        row_in_slot_(slots_ + std::size_t{1}, kNone) {}

  bool any() const { return slots_ > 0; }

  // Whether `place` is one of the slots and no other row has taken it since. Without a branch on the data, which nobody
  // could predict.
  bool holds(std::int32_t place, std::int64_t row) const {
    return row_in_slot_[std::min(static_cast<std::uint32_t>(place) - static_cast<std::uint32_t>(first_slot_),
                                 slots_)] == row;
  }

  // Of the first row of a step's list; the others follow.
  std::int32_t first_slot(std::int64_t step) const {
    return slots_ > 0 ? first_slot_ + static_cast<std::int32_t>(step * max_rows_ % slots_) : kFromHost;
  }

  // A row that a cache evicts takes the u-th slot of the step, which the step's row u does not need.
  void put(std::int64_t step, std::int64_t u, std::int64_t row) {
    row_in_slot_[static_cast<std::size_t>(first_slot(step) - first_slot_ + u)] = row;
  }

  // When all rows of the step have been found: rows [begin, end) of its list that leave for their host rows leave for
  // slots, which become their targets, or stay there if one of the next `steps` steps uses them. Threads may take parts
  // of one step at once. upcoming: of those steps, of which it has seen none that is further away.
  void leave(std::int64_t step, const std::int64_t* rows, std::int64_t begin, std::int64_t end,
             const UpcomingRows& upcoming, RowDestination* leave, std::int64_t* target) {
    const std::int32_t first = first_slot(step);
    std::int64_t* const row_in_slot = row_in_slot_.data() + (first - first_slot_);
    for (std::int64_t i = begin; i < end; ++i) {
      const bool leaves = leave[i] == RowDestination::kHostRow;
      if (leaves) leave[i] = upcoming.has(rows[i], step) ? RowDestination::kCache : RowDestination::kWriteBackBuffer;
      target[i] = leaves ? first + i : target[i];
      row_in_slot[i] = leaves ? rows[i] : row_in_slot[i];
    }
  }

  static std::int64_t bytes_of(std::int64_t slots) { return (slots + 1) * std::int64_t{8}; }

 private:
  static constexpr std::int64_t kNone = -1;

  const std::int32_t first_slot_;
  const std::int64_t max_rows_;
  const std::uint32_t slots_;
  std::vector<std::int64_t> row_in_slot_;  // that took it last; kNone, also behind the last slot
};

}  // namespace frugal
