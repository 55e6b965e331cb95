// Rows whose new values are on their way to their host rows while the next steps run.
//
// A step leaves them in slots behind the device's cache, and they are copied home later, beside the next steps. With
// slots for `steps` of them, a step may read host rows while the values of the steps - 1 before it are still on their
// way: it finds those in their slots, and every other row at home. Before it leaves its own values in the slots of the
// step `steps` before, that one's must have arrived; it has read there what it needs of them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/plan.h"
#include "memory/huge_pages.h"

namespace frugal {

class InFlightRows {
 public:
  // Of a table with `rows` rows. Slots [first_slot, first_slot + steps * max_rows) of the device's cache are for the
  // rows of `steps` steps, in turn. Takes 4 bytes per row of the table.
  InFlightRows(std::int64_t rows, std::int64_t first_slot, std::int64_t max_rows, std::int64_t steps);

  // Amends the plan of the next step, in place: a row that leaves for its host row goes to a slot (`leave` stays
  // kHostRow, `target` becomes the slot), and a host row whose newest value is in a slot is read from there. All spans
  // are equally long; rows are distinct, but for some that only pad: they neither come from the host nor leave for it.
  // Throws std::invalid_argument, with nothing changed, if more than max_rows rows leave.
  void amend(std::span<const std::int64_t> rows, std::span<std::int32_t> source, std::span<const RowDestination> leave,
             std::span<std::int64_t> target);

  // All rows have arrived, and may have been changed there.
  void forget();

 private:
  const std::int64_t first_slot_, max_rows_;
  std::int64_t first_ = 0;                 // of the next step's slots, counted from first_slot_ as all below
  LargeArray<std::int32_t> slot_of_row_;   // that it departed from last; it counts if the row is still in there
  std::vector<std::int64_t> row_in_slot_;  // that has departed and was not used since; kNone
};

}  // namespace frugal
