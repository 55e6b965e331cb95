#include "store/departures.h"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace frugal {

Departures::Departures(std::int64_t first_slot, std::int64_t max_rows) : first_slot_(first_slot), max_rows_(max_rows) {}

void Departures::amend(std::span<const std::int64_t> rows, std::span<std::int32_t> source,
                       std::span<const Leave> leave, std::span<std::int64_t> target) {
  const std::size_t count = rows.size();
  if (source.size() != count || leave.size() != count || target.size() != count)
    throw std::invalid_argument("the arrays of a plan must be equally long");
  if (std::ranges::count(leave, Leave::kHostRow) > max_rows_)
    throw std::invalid_argument("more than " + std::to_string(max_rows_) + " rows depart in one step");
  std::size_t departed = 0;
  for (std::size_t u = 0; u < count && departed < rows_.size(); ++u) {
    if (source[u] != kFromHost) continue;
    while (departed < rows_.size() && rows_[departed] < rows[u]) ++departed;
    if (departed < rows_.size() && rows_[departed] == rows[u]) source[u] = slots_[departed];
  }
  rows_.clear();
  slots_.clear();
  std::int64_t slot = first_slot_ + turn_ * max_rows_;
  for (std::size_t u = 0; u < count; ++u) {
    if (leave[u] != Leave::kHostRow) continue;
    rows_.push_back(rows[u]);
    slots_.push_back(static_cast<std::int32_t>(slot));
    target[u] = slot++;
  }
  turn_ = 1 - turn_;
}

}  // namespace frugal
