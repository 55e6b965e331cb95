// Queries against negatives projected for each of them, on a CUDA device: the twin of cpu/projected_pairs.h.
// No atomics: the same bits in every run.
#pragma once

#include "kernels/cuda/plan_kernels.h"
#include "kernels/projected_pairs.h"

namespace frugal::cuda {

// All pointers must be valid on the device. Both throw DeviceError if the launch fails. See cpu/projected_pairs.h for
// what they do.
void projected_distances(const ProjectedShape& shape, const float* query, const float* projected, float* distances,
                         const Launch& launch);
void projected_gradients(const ProjectedShape& shape, const float* query, const float* weight, float* projected,
                         float* of_query, const Launch& launch);

}  // namespace frugal::cuda
