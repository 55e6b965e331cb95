#include "store/in_flight_rows.h"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace frugal {
namespace {

constexpr std::int64_t kNone = -1;
constexpr std::size_t kAhead = 16;  // rows that are looked up ahead: those of a large table are not in the caches

}  // namespace

InFlightRows::InFlightRows(std::int64_t rows, std::int64_t first_slot, std::int64_t max_rows, std::int64_t steps)
    : first_slot_(first_slot),
      max_rows_(max_rows),
      slot_of_row_(static_cast<std::size_t>(rows)),
      row_in_slot_(static_cast<std::size_t>(steps * max_rows), kNone) {}

void InFlightRows::amend(std::span<const std::int64_t> rows, std::span<std::int32_t> source,
                         std::span<const RowDestination> leave, std::span<std::int64_t> target) {
  const std::size_t count = rows.size();
  if (source.size() != count || leave.size() != count || target.size() != count)
    throw std::invalid_argument("the arrays of a plan must be equally long");
  if (std::ranges::count(leave, RowDestination::kHostRow) > max_rows_)
    throw std::invalid_argument("more than " + std::to_string(max_rows_) + " rows depart in one step");
  // Without branches on the data, which nobody could predict. From now on this step decides where its rows are.
  for (std::size_t u = 0; u < count; ++u) {
    __builtin_prefetch(&slot_of_row_[rows[std::min(u + kAhead, count - 1)]]);
    const std::int32_t slot = slot_of_row_[rows[u]];
    const bool departed = source[u] == kFromHost && row_in_slot_[slot] == rows[u];
    source[u] = departed ? static_cast<std::int32_t>(first_slot_ + slot) : source[u];
    row_in_slot_[slot] = departed ? kNone : row_in_slot_[slot];
  }
  std::fill_n(row_in_slot_.begin() + first_, max_rows_, kNone);
  auto slot = static_cast<std::int32_t>(first_);
  for (std::size_t u = 0; u < count; ++u) {
    if (leave[u] != RowDestination::kHostRow) continue;
    target[u] = first_slot_ + slot;
    slot_of_row_[rows[u]] = slot;
    row_in_slot_[slot++] = rows[u];
  }
  first_ = (first_ + max_rows_) % static_cast<std::int64_t>(row_in_slot_.size());
}

void InFlightRows::forget() { std::ranges::fill(row_in_slot_, kNone); }

}  // namespace frugal
