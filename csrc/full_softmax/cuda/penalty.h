// The penalty of a batch's rows on a CUDA device; the reference is cpu/penalty.h. Sums have a fixed order, but not the
// CPU's.
#pragma once

#include <cstdint>

#include "full_softmax/penalty.h"

namespace frugal::cuda {

// Only enqueues. All pointers are to device memory. Throws DeviceError if the launch fails.
void penalize_rows(const RowPenalty& penalty, std::uintptr_t stream);

}  // namespace frugal::cuda
