// Sums of the gradients of a row: the reference, to the bit, for cuda/segment_sums.h.
#pragma once

#include <cstdint>

#include "rows/row_program.h"

namespace frugal::cpu {

// sums[u] (rows, dim), contiguous: the occurrences of segment u added up in their order; 0 where there are none. adds:
// they are added to what is there.
void segment_sums(const EntryGradients& segments, std::int64_t rows, std::int64_t dim, float* sums, bool adds = false);

}  // namespace frugal::cpu
