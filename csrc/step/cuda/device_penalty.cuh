// penalty_slope with little code, for short kernels, also four columns at a time.
#pragma once

#include "step/regularization.h"

namespace frugal::cuda {

__device__ __noinline__ static Vec slope_of_any_penalty(float norm, Vec x) { return penalty_slope(norm, x); }

// As penalty_slope, with all norms but DGL-KE's default out of line: a power is hundreds of instructions, which would
// stand in every turn of an unrolled loop.
__device__ inline Vec slope_of_penalty(float norm, Vec x) {
  return norm == 3.0f ? penalty_slope(3.0f, x) : slope_of_any_penalty(norm, x);
}

__device__ __noinline__ static float4 slopes_of_any_penalty(float norm, float4 x) {
  const auto of = [&](float y) { return slope_of_any_penalty(norm, Vec{y}).x; };
  return {of(x.x), of(x.y), of(x.z), of(x.w)};
}

// The terms that regularization adds to gradients of rows.
struct AddedPenalty {
  float norm, factor;
  bool regularized;

  __device__ AddedPenalty(const LossSpec& loss, bool regularized)
      : norm(loss.regularization_norm), factor(loss.regularization_coefficient * norm), regularized(regularized) {}

  // x: four columns of a row.
  __device__ void add(float4& gradient, float4 x) const {
    if (!regularized) return;
    const auto of = [&](float y) { return penalty_slope(3.0f, Vec{y}).x; };
    const float4 slope = norm == 3.0f ? float4{of(x.x), of(x.y), of(x.z), of(x.w)} : slopes_of_any_penalty(norm, x);
    gradient.x += factor * slope.x, gradient.y += factor * slope.y;
    gradient.z += factor * slope.z, gradient.w += factor * slope.w;
  }
};

}  // namespace frugal::cuda
