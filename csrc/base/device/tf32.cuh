// A float32 number as the sum of two of TF32, high + low. A product is low high + high low + high high: what is left
// out, and what of `low` TF32 has no place for, is 2^-22 of it.
#pragma once

#include <cstdint>

namespace frugal::cuda {

__device__ inline std::uint32_t high_of(float x) { return (__float_as_uint(x) + 0x1000u) & 0xffffe000u; }
__device__ inline std::uint32_t low_of(float x, std::uint32_t high) {
  return __float_as_uint(x - __uint_as_float(high));
}

}  // namespace frugal::cuda
