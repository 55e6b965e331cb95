// coefficient * sum |x|^norm of one row, and its gradient.
#pragma once

#include <cmath>
#include <cstdint>

#include "linalg/row.h"
#include "loss/loss.h"

namespace frugal::FRUGAL_ISA {

// d/dx |x|^norm / norm, elementwise; times x, that is |x|^norm.
FRUGAL_LANES Vec penalty_slope(float norm, Vec x) {
  if (norm == 3.0f) return abs(x) * x;  // DGL-KE's default
  if (norm == 2.0f) return x;
  if (norm == 1.0f) return sign(x);
  return flip_sign(positive_power(abs(x), norm - 1.0f), x);
}

// Writes d/dx coefficient * |x|^norm for each x of the row; returns the sum of |x|^norm.
FRUGAL_LANES float regularize(const LossSpec& loss, const float* row, std::int64_t dim, float* gradient) {
  const float norm = loss.regularization_norm;
  const Vec factor = broadcast(loss.regularization_coefficient * norm);
  for_row(dim, [&](std::int64_t i, auto read, auto write) {
    write(gradient + i, factor * penalty_slope(norm, read(row + i)));
  });
  return sum_row(dim, [&](std::int64_t i, auto read) {
    const Vec x = read(row + i);
    return penalty_slope(norm, x) * x;
  });
}

}  // namespace frugal::FRUGAL_ISA
