// coefficient * sum |x|^norm of one row, and its gradient.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/linalg/row.h"
#include "models/loss.h"

namespace frugal::FRUGAL_ISA {

// d/dx |x|^norm / norm, elementwise; times x, that is |x|^norm.
FRUGAL_LANES Vec penalty_slope(float norm, Vec x) {
  if (norm == 3.0f) return abs(x) * x;  // DGL-KE's default
  if (norm == 2.0f) return x;
  if (norm == 1.0f) return sign(x);
  return flip_sign(positive_power(abs(x), norm - 1.0f), x);
}

// Writes factor * slope(x) for each x of the row; returns the sum of slope(x) * x.
template <typename Slope>
FRUGAL_LANES float penalize(const float* row, std::int64_t dim, float factor, float* gradient, Slope slope) {
  const Vec times = broadcast(factor);
  Vec sum = broadcast(0.0f);
  for_row(dim, [&](std::int64_t i, auto read, auto write) {
    const Vec x = read(row + i), rising = slope(x);
    write(gradient + i, times * rising);
    sum = sum + rising * x;
  });
  return fold_sum(sum);
}

// Writes d/dx coefficient * |x|^norm for each x of the row; returns the sum of |x|^norm.
FRUGAL_LANES float regularize(const LossSpec& loss, const float* row, std::int64_t dim, float* gradient) {
  const float norm = loss.regularization_norm, factor = loss.regularization_coefficient * norm;
  if (norm == 3.0f)  // once more for the default, whose loop then has no branches
    return penalize(row, dim, factor, gradient, [](Vec x) { return penalty_slope(3.0f, x); });
  return penalize(row, dim, factor, gradient, [norm](Vec x) { return penalty_slope(norm, x); });
}

}  // namespace frugal::FRUGAL_ISA
