// A number of 16 bits, rounded to nearest: as base/half.h has it, but for numbers beyond the largest fp16, which
// become infinite and which nobody has here, and for the bits of a NaN.
#pragma once

#include "base/half.h"

namespace frugal::cuda {

__device__ inline std::uint16_t to_half(float x) {
#ifdef __CUDA_ARCH__
  std::uint16_t half;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(x));
  return half;
#else
  return Half::round_to_nearest(x);
#endif
}

// Two of them, of which the first one lies in front.
__device__ inline std::uint32_t to_half_pair(float first, float second) {
#ifdef __CUDA_ARCH__
  std::uint32_t halves;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(halves) : "f"(second), "f"(first));
  return halves;
#else
  return to_half(first) | static_cast<std::uint32_t>(to_half(second)) << 16;
#endif
}

}  // namespace frugal::cuda
