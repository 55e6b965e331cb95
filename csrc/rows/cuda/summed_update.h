// Updates from sums of gradients on a CUDA device; the reference, to the bit, is cpu/summed_update.h.
#pragma once

#include "rows/cuda/plan_kernels.h"
#include "rows/summed_row.h"

namespace frugal::cuda {

// Every row leaves the step as its plan says, updated from sums (count, memory.dim), contiguous. records: what gather
// gave. Throws DeviceError if the launch fails.
void update_from_sums(const RowMemory& memory, const RowWrites& writes, const float* records, const float* sums,
                      const UpdateRule& rule, const Launch& launch);

}  // namespace frugal::cuda
