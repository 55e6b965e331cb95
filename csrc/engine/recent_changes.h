// Which rows have changed lately, with in-step synchronisation, so that a step does not read them too early.
//
// A row that has changed in one of the kLateSteps steps before is read late, unless the rank that reads it has the
// value in its own write-back buffer. Each row of a step has an entry in a ring of steps; the place of a changed row
// (row_cells.h) is that of its entry, until its step is long ago.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/plan.h"
#include "engine/testing.h"

namespace frugal {

class RecentChanges {
 public:
  static constexpr std::int64_t kSteps = kLateSteps + 1;  // of the ring: one is being planned

  // Places [first_place, first_place + ranks * kSteps * max_rows); ranks may be 0. A value is in its slot for
  // buffer_steps steps, kLateSteps - 1 at most.
  RecentChanges(std::int64_t first_place, int ranks, std::int64_t max_rows, std::int64_t buffer_steps)
      : first_place_(static_cast<std::int32_t>(first_place)),
        max_rows_(max_rows),
        buffer_steps_(buffer_steps),
        entries_(static_cast<std::uint32_t>(ranks * kSteps * max_rows)),
        row_(entries_ + std::size_t{1}, kNone),
        slot_(row_.size(), kFromHost) {}

  bool any() const { return entries_ > 0; }

  // Before the step is planned: forgets what changed kSteps before it, and slots that are used again.
  void begin(std::int64_t step, int ranks) {
    for (int rank = 0; rank < ranks && any(); ++rank) {
      std::fill_n(row_.begin() + static_cast<std::ptrdiff_t>(entry(step, rank)), max_rows_, kNone);
      if (step > buffer_steps_)
        std::fill_n(slot_.begin() + static_cast<std::ptrdiff_t>(entry(step - buffer_steps_ - 1, rank)), max_rows_,
                    kFromHost);
    }
  }

  // Of the first row of a rank's list; the others follow.
  std::int32_t first_place(std::int64_t step, int rank) const {
    return any() ? first_place_ + static_cast<std::int32_t>(entry(step, rank)) : kFromHost;
  }

  // When all rows of the step have been found: it changes `row`, whose place is that of the list's `index`, and leaves
  // the value in the rank's `slot`, or in its host row.
  void set(std::int64_t step, int rank, std::int64_t index, std::int64_t row, std::int32_t slot = kFromHost) {
    const auto at = static_cast<std::size_t>(entry(step, rank) + index);
    row_[at] = row;
    slot_[at] = slot;
  }

  // Where the rank reads the row at `place`, which is not cached. Without a branch on the data, which nobody could
  // predict.
  std::int32_t source(std::int32_t place, std::int64_t row, int rank) const {
    const std::uint32_t place_at = static_cast<std::uint32_t>(place) - static_cast<std::uint32_t>(first_place_);
    const std::uint32_t at = std::min(place_at, entries_);
    const auto of_rank = static_cast<std::uint32_t>(kSteps * max_rows_);
    const bool here = at - static_cast<std::uint32_t>(rank) * of_rank < of_rank && slot_[at] != kFromHost;
    const std::int32_t late = mutated(Mutation::kNothingLate) ? kFromHost : kFromHostLate;
    return row_[at] != row ? kFromHost : here ? slot_[at] : late;
  }

  static std::int64_t bytes_of(int ranks, std::int64_t max_rows) { return (ranks * kSteps * max_rows + 1) * 12; }

 private:
  static constexpr std::int64_t kNone = -1;

  std::int64_t entry(std::int64_t step, int rank) const { return (rank * kSteps + step % kSteps) * max_rows_; }

  const std::int32_t first_place_;
  const std::int64_t max_rows_, buffer_steps_;
  const std::uint32_t entries_;
  std::vector<std::int64_t> row_;   // that the entry tells of; kNone, also behind the last one
  std::vector<std::int32_t> slot_;  // where its rank has the value
};

}  // namespace frugal
