// Elements of rows by their names in Python, and by what they are rounded.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/random/rounding_noise.h"
#include "bindings/named.h"
#include "table/row_layout.h"

namespace frugal::bindings {

inline RowElement element_named(const std::string& name) {
  return named<RowElement>({{"fp32", RowElement::kFloat32}, {"fp16", RowElement::kFloat16}}, name,
                           "element of a row");
}

inline const char* name_of(RowElement element) {
  return element == RowElement::kFloat32 ? "fp32" : "fp16";
}

// (first, count) of neighbouring columns of whole rows, one behind the other; none: all columns.
using ColumnRanges = std::vector<std::pair<std::int64_t, std::int64_t>>;

// Of rows of `dim` columns. Throws std::invalid_argument unless at most two ranges fill one.
inline WholeColumns whole_columns(const ColumnRanges& ranges, std::int64_t dim) {
  if (ranges.empty()) return {};
  constexpr std::int64_t kMost = 1 << 27;  // columns of a whole row
  std::int64_t filled = 0;
  for (const auto& [first, count] : ranges)
    filled += first < 0 || count < 1 || first > kMost - count ? dim + 1 : count;
  if (filled != dim || ranges.size() > 2)
    throw std::invalid_argument("rows are rounded by one or two ranges of columns, which fill them");
  return {static_cast<std::int32_t>(ranges.front().first), static_cast<std::int32_t>(ranges.front().second),
          static_cast<std::int32_t>(ranges.back().first)};
}

}  // namespace frugal::bindings
