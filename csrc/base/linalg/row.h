// Loops over rows: elementwise, and sums, always in the order of sixteen partial sums.
#pragma once

#include "base/linalg/simd.h"

namespace frugal::FRUGAL_ISA {

// The sum of term(i, read) over the vectors of a row of `dim` floats, i the first element of each. read gives 0 beyond
// the end of the row, where the term must be 0 then.
template <typename Term>
FRUGAL_LANES float sum_row(std::int64_t dim, Term term) {
  Vec sum = broadcast(0.0f);
  std::int64_t i = 0;
#ifdef __CUDACC__
#pragma unroll 5  // so that loads are under way together; the compiler would not
#endif
  for (; i + kLanes <= dim; i += kLanes) sum = sum + term(i, [](const float* p) { return load(p); });
  if (i < dim) {
    const int left = static_cast<int>(dim - i);
    sum = sum + term(i, [left](const float* p) { return load_part(p, left); });
  }
  return fold_sum(sum);
}

// Calls body(i, read, write) for each vector of a row of `dim` floats; at the end of the row, read gives 0 beyond it
// and write stops there.
template <typename Body>
FRUGAL_LANES void for_row(std::int64_t dim, Body body) {
  std::int64_t i = 0;
  for (; i + kLanes <= dim; i += kLanes)
    body(
        i, [](const float* p) { return load(p); }, [](float* p, Vec x) { store(p, x); });
  if (i < dim) {
    const int left = static_cast<int>(dim - i);
    body(
        i, [left](const float* p) { return load_part(p, left); }, [left](float* p, Vec x) { store_part(p, x, left); });
  }
}

FRUGAL_LANES float dot(const float* a, const float* b, std::int64_t dim) {
  return sum_row(dim, [&](std::int64_t i, auto read) { return read(a + i) * read(b + i); });
}

}  // namespace frugal::FRUGAL_ISA
