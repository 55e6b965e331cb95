// Rows of a matrix that is read once, from one end to the other, so that the processor fetches it ahead.
#pragma once

#include <algorithm>

#include "base/linalg/row.h"

namespace frugal::FRUGAL_ISA {

// y += factor * x, n floats each.
FRUGAL_LANES void add_multiple(float factor, const float* x, std::int64_t n, float* y) {
  const Vec times = broadcast(factor);
  for_row(n, [&](std::int64_t i, auto read, auto write) { write(y + i, fma(times, read(x + i), read(y + i))); });
}

// Elements [first, first + count) of a matrix of `columns` columns, whose rows are element(i, j) for vectors j.
template <typename Element>
FRUGAL_LANES void fill_range(std::int64_t columns, std::int64_t first, std::int64_t count, float* out,
                             Element element) {
  std::int64_t i = first / columns, j = first % columns;
  for (std::int64_t left = count; left > 0; ++i, j = 0) {
    const std::int64_t length = std::min(left, columns - j);
    for_row(length, [&](std::int64_t at, auto read, auto write) { write(out + at, element(i, j + at, read)); });
    out += length;
    left -= length;
  }
}

}  // namespace frugal::FRUGAL_ISA
