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
  // Both loops go without branches on the data, which nobody could predict.
  for (std::size_t u = 0, k = 0; u < count && k < departed_;) {
    const std::int64_t row = rows[u], departed = rows_[k];
    const bool on_its_way = row == departed && source[u] == kFromHost;
    source[u] = on_its_way ? last_first_ + static_cast<std::int32_t>(k) : source[u];
    u += row <= departed;
    k += departed <= row;
  }
  rows_.resize(count + 1);
  const std::int64_t first = first_slot_ + turn_ * max_rows_;
  departed_ = 0;
  for (std::size_t u = 0; u < count; ++u) {
    const bool leaves = leave[u] == Leave::kHostRow;
    rows_[departed_] = rows[u];
    target[u] = leaves ? first + static_cast<std::int64_t>(departed_) : target[u];
    departed_ += leaves;
  }
  last_first_ = static_cast<std::int32_t>(first);
  turn_ = 1 - turn_;
}

}  // namespace frugal
