// coefficient * sum |x|^norm of one row, and its gradient.
#pragma once

#include <cmath>
#include <cstdint>

#include "linalg/simd.h"
#include "loss/loss.h"

namespace frugal {

// Writes d/dx coefficient * |x|^norm for each x of the row; returns the sum of |x|^norm.
inline double regularize(const LossSpec& loss, const float* row, std::int64_t dim, float* gradient) {
  using namespace FRUGAL_ISA;
  const float norm = loss.regularization_norm;
  const Vec factor = broadcast(loss.regularization_coefficient * norm), zero = broadcast(0.0f);
  Vec sum = zero;
  // slope(x, |x|) = d/dx |x|^norm / norm, and x times that is |x|^norm.
  const auto add = [&](auto slope) {
    std::int64_t i = 0;
    for (; i + kLanes <= dim; i += kLanes) {
      const Vec x = load(row + i), s = slope(x, abs(x));
      sum = sum + s * x;
      store(gradient + i, factor * s);
    }
    if (i < dim) {
      const int left = static_cast<int>(dim - i);
      const Vec x = load_part(row + i, left), s = slope(x, abs(x));
      sum = sum + s * x;
      store_part(gradient + i, factor * s, left);
    }
  };
  if (norm == 3.0f) {  // DGL-KE's default
    add([](Vec x, Vec magnitude) { return magnitude * x; });
  } else if (norm == 2.0f) {
    add([](Vec x, Vec) { return x; });
  } else if (norm == 1.0f) {
    add([](Vec x, Vec) { return sign(x); });
  } else {
    add([norm](Vec x, Vec magnitude) {
      float m[kLanes];
      store(m, magnitude);
      for (float& each : m) each = each > 0.0f ? std::pow(each, norm - 1.0f) : 0.0f;
      return flip_sign(load(m), x);
    });
  }
  return fold_sum(sum);
}

}  // namespace frugal
