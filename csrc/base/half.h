// Numbers of 16 bits, IEEE binary16 (fp16), read exactly and rounded to nearest or at random.
//
// Rounded at random a number goes to one of its two neighbours, to the nearer one more often: its expectation is the
// number itself, so that updates smaller than the distance of the neighbours are not lost. A number that a half can
// hold stays as it is. Integers decide, and float operations that all machines round alike, so that all have the
// same bits.
#pragma once

#include <cstdint>
#include <cstring>

#ifdef __CUDACC__
#define FRUGAL_HALF_CODE __host__ __device__ inline
#else
#define FRUGAL_HALF_CODE inline
#endif

namespace frugal {

FRUGAL_HALF_CODE std::uint32_t bits_of(float x) {
#ifdef __CUDA_ARCH__
  return __float_as_uint(x);
#else
  std::uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
#endif
}
FRUGAL_HALF_CODE float float_of(std::uint32_t bits) {
#ifdef __CUDA_ARCH__
  return __uint_as_float(bits);
#else
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
#endif
}

// Finite numbers beyond the largest one become that one; infinities and NaN stay what they are.
struct Half {
  FRUGAL_HALF_CODE static float expand(std::uint16_t half) {
#ifdef __CUDA_ARCH__
    float wide;
    asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(half));
    return wide;
#endif
    const std::uint32_t sign = std::uint32_t{half & 0x8000u} << 16, size = half & 0x7fffu;
    // As a float with the same mantissa the number is 2^112 times too small, or, of exponent 0, away from 2^-14.
    const std::uint32_t normal = (size << 13) + (size < 0x7c00u ? kRebias : 2 * kRebias);
    const std::uint32_t small = bits_of(float_of(kLeastNormal | size << 13) - float_of(kLeastNormal));
    return float_of(sign | (size < 0x400u ? small : normal));
  }
  // noise: 16 random bits. Above 2^-14 the probabilities are exact; below, where a half has no room for all digits,
  // to 2^-16.
  FRUGAL_HALF_CODE static std::uint16_t round(float x, std::uint32_t noise) {
    const std::uint32_t size = bits_of(x) & 0x7fffffffu;
    const float places = small_places(size);
    const std::uint32_t whole = static_cast<std::uint32_t>(places);
    const float rest = (places - static_cast<float>(whole)) * 65536.0f;
    return make(x, size, size + (noise >> 3), whole + (rest > static_cast<float>(noise)));
  }
  // To nearest, ties to even.
  FRUGAL_HALF_CODE static std::uint16_t round_to_nearest(float x) {
    const std::uint32_t size = bits_of(x) & 0x7fffffffu;
    const float whole = (small_places(size) + 8388608.0f) - 8388608.0f;
    return make(x, size, size + 0xfffu + (size >> 13 & 1u), static_cast<std::uint32_t>(whole));
  }

 private:
  static constexpr std::uint32_t kRebias = 112u << 23, kLeastNormal = 113u << 23, kInfinity = 0x7f800000u;

  // A number below 2^-14 in units of 2^-24, the distance of numbers in half precision there; 1024 for a larger one.
  FRUGAL_HALF_CODE static float small_places(std::uint32_t size) {
    return float_of(size < kLeastNormal ? size : kLeastNormal) * 16777216.0f;
  }
  // moved: bits of |x|, so much larger that what is cut off has rounded it; small: |x| in units of 2^-24, rounded.
  FRUGAL_HALF_CODE static std::uint16_t make(float x, std::uint32_t size, std::uint32_t moved, std::uint32_t small) {
    const std::uint32_t cut = (moved - kRebias) >> 13, normal = cut < 0x7bffu ? cut : 0x7bffu;
    const std::uint32_t special = size > kInfinity ? 0x7e00u : 0x7c00u;
    const std::uint32_t half = size < kLeastNormal ? small : size < kInfinity ? normal : special;
    return static_cast<std::uint16_t>((bits_of(x) >> 16 & 0x8000u) | half);
  }
};

}  // namespace frugal
