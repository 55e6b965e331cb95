// Rows whose new values are on their way to their host rows while the next step runs.
//
// A step leaves them in slots behind the device's cache, and they are copied home later,
// beside the next step. That step finds them in these slots; all its other host rows it may read at once, without
// waiting for the step before. The step after next finds them at home, and their slots are used again.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/plan.h"

namespace frugal {

class Departures {
 public:
  // Slots [first_slot, first_slot + 2 * max_rows) of the device's cache are for the rows of two steps, in turn.
  Departures(std::int64_t first_slot, std::int64_t max_rows);

  // Amends the plan of the next step, in place: a row that leaves for its host row goes to a slot (`leave` stays
  // kHostRow, `target` becomes the slot), and a host row that the step before left so is read from there. All spans are
  // equally long; rows ascend, but for some at the end that only pad: they neither come from the host nor leave for it.
  // Throws std::invalid_argument, with nothing changed, if more than max_rows rows leave.
  void amend(std::span<const std::int64_t> rows, std::span<std::int32_t> source, std::span<const Leave> leave,
             std::span<std::int64_t> target);

  // All rows have arrived, and may have been changed there.
  void forget() { departed_ = 0; }

 private:
  const std::int64_t first_slot_, max_rows_;
  std::int64_t turn_ = 0;           // 0 or 1: whose slots the next step uses
  std::vector<std::int64_t> rows_;  // the first departed_ of them were left by the last step, ascending,
  std::size_t departed_ = 0;
  std::int32_t last_first_ = 0;     // in the slots from here on
};

}  // namespace frugal
