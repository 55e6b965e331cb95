// The penalty of a batch's rows, each as often as it occurs, and its gradient: what cpu/penalty.h and cuda/penalty.h
// are told. With n_u how often row u occurs, x_u its numbers, and p the norm, it is
//
//   share / p sum_u n_u sum |x_u|^p
//
// of numbers or, for cubes of complex ones (p = 3), of moduli; a row's real parts come first.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/device/everywhere.h"

namespace frugal {

struct RowPenalty {
  const float* rows;          // (n, dim)
  const std::int32_t* times;  // (n,)
  std::int64_t count, dim;
  float norm;       // p
  bool is_complex;  // then p is 3
  float share;
  float* slopes;    // (n, dim), the gradient
  double* amounts;  // (n,), p / share times the penalty of each row
};

// Takes number k of a row, of which there are `dim`, or half as many complex ones; returns sum |x|^p of it. factor: of
// the slopes.
FRUGAL_EVERYWHERE inline float penalize_number(const RowPenalty& p, const float* row, float* slope, std::int64_t k,
                                               float factor) {
  if (p.is_complex) {
    const std::int64_t half = p.dim / 2;
    const float a = row[k], b = row[half + k], modulus = sqrtf(a * a + b * b);
    slope[k] = factor * (a * modulus);
    slope[half + k] = factor * (b * modulus);
    return modulus * modulus * modulus;
  }
  const float x = row[k], size = fabsf(x);
  const float power = p.norm == 3.0f   ? size * size
                      : p.norm == 2.0f ? size
                      : size == 0.0f   ? 0.0f
                      : p.norm == 1.0f ? 1.0f
                                       : powf(size, p.norm - 1.0f);
  slope[k] = factor * copysignf(power, x);
  return power * size;
}

FRUGAL_EVERYWHERE inline std::int64_t numbers_of(const RowPenalty& p) { return p.is_complex ? p.dim / 2 : p.dim; }

}  // namespace frugal
