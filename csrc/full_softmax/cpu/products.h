// Products of large matrices on the CPU, by the thread pool. Each element is one sum in the order of its depth, so that
// no bit depends on threads, pieces or instruction sets.
//
// Row-major matrices have rows that are `stride` floats apart and may be read and written up to the next multiple of 16
// floats.
#pragma once

#include <cstdint>

#include "base/linalg/operands.h"

namespace frugal::cpu {

// c (m, n) = a (m, k) b^T, b (n, k).
void multiply_transposed(std::int64_t m, std::int64_t n, std::int64_t k, Rows a, Rows b, Rows c);
// c (m, n) = a b, a (m, k) with any strides, b (k, n). adds: c += a b, in sums that begin with what c holds.
void multiply(std::int64_t m, std::int64_t n, std::int64_t k, Left a, Rows b, Rows c, bool adds = false);

}  // namespace frugal::cpu
