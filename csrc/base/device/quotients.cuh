// Quotients of several numbers by one, correctly rounded as __fdiv_rn is, but without a branch each.
#pragma once

#include <cstdint>

namespace frugal::cuda {

struct Divisor {
  float value, reciprocal;  // both correctly rounded
  bool normal_range;               // value in [2^-60, 2^60]
};

__device__ inline bool is_in_normal_range(float x) {
  constexpr unsigned kLeast = (127u - 60u) << 23, kMost = (127u + 60u) << 23;
  const unsigned size = __float_as_uint(x) & 0x7fffffffu;
  return (size - kLeast <= kMost - kLeast) | (size == 0u);
}

__device__ inline Divisor make_divisor(float value) {
  return {value, __frcp_rn(value), is_in_normal_range(value) && value > 0.0f};
}

// Each x becomes x / by, if it and all the others are numbers in the normal range. Returns whether they are; else they
// are worthless. Where nothing can overflow or underflow, one correction by an exact residual rounds correctly, since
// the reciprocal is (Brisebarre, Muller and Raina 2004; tests/cuda/test_emulated_quotients.cpp).
template <int kCount>
__device__ inline bool divide_in_normal_range(float (&x)[kCount], const Divisor& by) {
  bool normal_range = by.normal_range;
#pragma unroll
  for (int k = 0; k < kCount; ++k) {
    normal_range = normal_range & is_in_normal_range(x[k]);
    const float guess = x[k] * by.reciprocal;
    const float best = __fmaf_rn(__fmaf_rn(-by.value, guess, x[k]), by.reciprocal, guess);
    constexpr unsigned kSign = 0x80000000u;  // 0 keeps its own
    x[k] = __uint_as_float((__float_as_uint(best) & ~kSign) | (__float_as_uint(x[k]) & kSign));
  }
  return normal_range;
}

__device__ __noinline__ static float any_quotient(float x, float by) { return __fdiv_rn(x, by); }

// Each x becomes x / by, whatever they are.
template <int kCount>
__device__ inline void divide(float (&x)[kCount], const Divisor& by) {
  float quotient[kCount];
#pragma unroll
  for (int k = 0; k < kCount; ++k) quotient[k] = x[k];
  const bool normal_range = divide_in_normal_range(quotient, by);
#pragma unroll
  for (int k = 0; k < kCount; ++k) x[k] = normal_range ? quotient[k] : any_quotient(x[k], by.value);
}

}  // namespace frugal::cuda
