// A number of 16 bits, rounded to nearest: as memory/half.h has it, but for numbers beyond the largest fp16, which become
// infinite and which nobody has here, and for the bits of a NaN.
#pragma once

#include "memory/half.h"

namespace frugal::cuda {

template <RowElement kElement>
__device__ inline std::uint16_t to_half(float x) {
#ifdef __CUDA_ARCH__
  if constexpr (kElement == RowElement::kFloat16) {  // one instruction
    std::uint16_t half;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(x));
    return half;
  }
#endif
  return Half<kElement>::round_to_nearest(x);
}

}  // namespace frugal::cuda
