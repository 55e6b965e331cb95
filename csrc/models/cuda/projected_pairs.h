// Projected negatives on a CUDA device; the reference is cpu/projected_pairs.h. The same bits in every run.
#pragma once

#include "models/projected_pairs.h"
#include "rows/cuda/plan_kernels.h"

namespace frugal::cuda {

// All pointers must be valid on the device. All throw DeviceError if a launch fails. See cpu/projected_pairs.h for what
// they do.
void project(const ProjectedPairs& p, const float* candidates, const float* query, float* projected, float* distances,
             const Launch& launch);
void project_back(const ProjectedPairs& p, const float* query, const float* slope, const float* projected,
                  std::int32_t* rows, float* of_candidates, const Launch& launch);
void differentiate_matrices(const ProjectedPairs& p, const float* candidates, const float* query, const float* slope,
                            const float* projected, float* of_matrices, float* of_query, const Launch& launch);

}  // namespace frugal::cuda
