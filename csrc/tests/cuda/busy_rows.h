// The list of busy rows that an update is given (StepGradients::busy).
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "rows/row_program.h"

namespace frugal {

inline std::vector<std::int32_t> busy_rows(const StepGradients& gradients, std::int64_t rows) {
  std::vector<std::int32_t> count(rows), busy(rows);
  for (int e = 0; e < gradients.entries; ++e)
    for (std::int64_t u = 0; u < rows; ++u)
      count[u] += gradients.entry[e].offset[u + 1] - gradients.entry[e].offset[u];
  std::iota(busy.begin(), busy.end(), 0);
  std::erase_if(busy, [&](std::int32_t u) { return count[u] <= kFewOccurrences; });
  std::ranges::stable_sort(busy, [&](std::int32_t a, std::int32_t b) { return count[a] > count[b]; });
  busy.insert(busy.begin(), static_cast<std::int32_t>(busy.size()));
  return busy;
}

}  // namespace frugal
