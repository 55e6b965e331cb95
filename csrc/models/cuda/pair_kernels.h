// Every row against every other row of a chunk on a CUDA device; the reference, to the bit, is cpu/pair_kernels.h.
//
// The differences of all pairs, chunks x mine x theirs x columns of them, are never stored.
#pragma once

#include "models/pair_terms.h"
#include "rows/cuda/plan_kernels.h"

namespace frugal::cuda {

// All pointers must be valid on the device. Both throw DeviceError if the launch fails.
void pair_distances(PairKind kind, const PairShape& shape, const float* mine, const float* theirs, float* distances,
                    const Launch& launch);
void pair_gradients(PairKind kind, const PairShape& shape, const float* mine, const float* theirs,
                    const PairWeights& weights, float* gradients, const Launch& launch);

}  // namespace frugal::cuda
