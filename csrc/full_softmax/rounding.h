// A matrix in numbers of 16 bits, for tensor cores: what cpu/round_matrix.h and cuda/round_matrix.h are told.
//
// fp16 has the 11 digits of TF32, and tensor cores multiply it twice as fast, but not its exponents. So every number is
// multiplied by one power of two before it is rounded, so that the largest one stays below 2^15: numbers that are 2^-28
// of the largest, or with the usual power 2^-24 or more, are rounded as to TF32.
#pragma once

#include <cstdint>

#include "base/half.h"

namespace frugal {

struct MatrixRounding {
  const float* from;  // (rows, columns), from_stride floats apart
  std::int64_t rows, columns, from_stride;
  std::uint16_t* to;  // (to_rows, to_columns), without gaps; zero where `from` has nothing
  std::int64_t to_rows, to_columns;
  // (3,) where the kernels run: afterwards the power of two u, 1 / u, and the largest magnitude, which is 0 before.
  float* scaling;
};

// The usual power serves matrices whose largest magnitude is in [kUsualLeast, kUsualMost), so that they are read once.
inline constexpr float kUsualPower = 1024.0f, kUsualLeast = 1.0f / 4096, kUsualMost = 32.0f;

FRUGAL_HALF_CODE bool is_usual(float largest) {
  const bool in_range = largest >= kUsualLeast && largest < kUsualMost;
  const bool is_finite_number = largest > 0.0f && bits_of(largest) < 0x7f800000u;
  return in_range || !is_finite_number;
}

// 2^14 / 2^floor(log2 largest), for a largest magnitude that is not usual.
FRUGAL_HALF_CODE float power_for(float largest) {
  constexpr int kBias = 127, kMost = 120;
  const int exponent = 14 + kBias - static_cast<int>(bits_of(largest) >> 23);
  return float_of(static_cast<std::uint32_t>((exponent < kMost ? exponent : kMost) + kBias) << 23);
}

}  // namespace frugal
