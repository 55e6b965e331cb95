// Square roots and quotients by them for numbers in the normal range, correctly rounded as __fsqrt_rn and __fdiv_rn
// are, but without a branch each, and with one approximation for both.
//
// Newton's iterations from the approximate reciprocal root, ended by a residual that a fused multiply-add gives
// exactly. On an H200 all roots in the normal range have been compared with the IEEE function; quotients follow from
// the bound on the approximation's error.
#pragma once

#include <cstdint>

namespace frugal::cuda {

// How far a square is above 2^-100, as a number that is larger than kMostExcess for those below it, 0 included, and for
// those above 2^80. So the largest of several tells whether all are in the normal range.
inline constexpr unsigned kLeastSquare = (127u - 100u) << 23, kMostExcess = 180u << 23;
__device__ inline unsigned excess_of(float square) { return __float_as_uint(square) - kLeastSquare; }
__device__ inline unsigned larger(unsigned a, unsigned b) { return a > b ? a : b; }
__device__ inline bool are_in_normal_range(unsigned excess) { return excess <= kMostExcess; }

// Weights that are 0, or in [2^-60, 2^60].
__device__ inline bool is_weight_in_normal_range(float weight) {
  const float size = fabsf(weight);
  return ((size >= 0x1p-60f) & (size <= 0x1p60f)) | (size == 0.0f);
}

struct NormalRoot {
  float root, reciprocal;  // correctly rounded; approximate
};

__device__ inline NormalRoot normal_root(float square) {
  float reciprocal;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(reciprocal) : "f"(square));
  const float guess = square * reciprocal;
  return {__fmaf_rn(__fmaf_rn(-guess, guess, square), 0.5f * reciprocal, guess), reciprocal};
}

// 1 / by.root, rounded correctly but for a few roots. The summand makes it so, whatever the approximation was, where
// the root's last digits are ones: there the other neighbour would cost a quotient its last digit.
__device__ inline float normal_reciprocal(NormalRoot by) {
  const float excess = __fmaf_rn(-by.root, by.reciprocal, 1.0f) + 0x1p-43f;
  return __fmaf_rn(by.reciprocal, excess, by.reciprocal);
}

// weight / by.root, correctly rounded (tests/cuda/test_emulated_quotients.cpp): one correction by an exact residual is
// enough, since what it starts from is within its last two digits.
__device__ inline float normal_ratio(float weight, NormalRoot by) {
  const float reciprocal = normal_reciprocal(by), guess = weight * reciprocal;
  return __fmaf_rn(__fmaf_rn(-by.root, guess, weight), reciprocal, guess);
}

// For all other numbers. Not inlined, since they are rare and long.
__device__ __noinline__ static float any_root(float square) { return __fsqrt_rn(square); }
__device__ __noinline__ static float any_ratio(float weight, float square) {
  return square > 0.0f ? __fdiv_rn(weight, __fsqrt_rn(square)) : 0.0f;
}

}  // namespace frugal::cuda
