// Products of rows of complex numbers, whose real parts come first: x y, or conj(x) y.
#pragma once

#include <cstdint>

#include "base/device/everywhere.h"

namespace frugal {

struct ComplexProduct {
  const float *x, *y;  // (rows, 2 numbers), each with its stride
  float* out;
  std::int64_t x_stride, y_stride, out_stride;
  std::int64_t rows, numbers;
  bool conjugate;  // of x
};

// Number k of rows that begin at x, y and out.
FRUGAL_EVERYWHERE inline void multiply_number(const float* x, const float* y, float* out, std::int64_t k,
                                              std::int64_t numbers, float sign) {
  const float a = x[k], b = sign * x[numbers + k], c = y[k], d = y[numbers + k];
  out[k] = a * c - b * d;
  out[numbers + k] = a * d + b * c;
}

}  // namespace frugal
