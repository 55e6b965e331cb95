// penalty_slope with little code, for short kernels (docs/step.md has what that gained).
#pragma once

#include "step/regularization.h"

namespace frugal::cuda {

__device__ __noinline__ static Vec slope_of_any_penalty(float norm, Vec x) { return penalty_slope(norm, x); }

// As penalty_slope, with all norms but DGL-KE's default out of line: a power is hundreds of instructions, which would
// stand in every turn of an unrolled loop.
__device__ inline Vec slope_of_penalty(float norm, Vec x) {
  return norm == 3.0f ? penalty_slope(3.0f, x) : slope_of_any_penalty(norm, x);
}

}  // namespace frugal::cuda
