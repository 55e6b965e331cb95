// Sums of the gradients of a row on a CUDA device; the reference, to the bit, is cpu/segment_sums.h. No atomics.
#pragma once

#include <cstdint>

#include "rows/cuda/plan_kernels.h"

namespace frugal::cuda {

// All pointers must be valid on the device. Throws DeviceError if the launch fails.
void segment_sums(const EntryGradients& segments, std::int64_t rows, std::int64_t dim, float* sums,
                  const Launch& launch, bool adds = false);

}  // namespace frugal::cuda
