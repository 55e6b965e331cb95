#include "full_softmax/cpu/round_matrix.h"

#include <algorithm>

#include "base/parallel/thread_pool.h"

namespace frugal::cpu {
namespace {

void round_rows(const MatrixRounding& r, float power) {
  default_pool()->parallel_for(r.to_rows, kRowsPerTask, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      for (std::int64_t j = 0; j < r.to_columns; ++j)
        r.to[i * r.to_columns + j] = i < r.rows && j < r.columns
                                         ? Half::round_to_nearest(r.from[i * r.from_stride + j] * power)
                                         : std::uint16_t{0};
  });
}

// As bits, so that a NaN is larger than all numbers.
float largest_of(const MatrixRounding& r) {
  std::uint32_t largest = 0;
  for (std::int64_t i = 0; i < r.rows; ++i)
    for (std::int64_t j = 0; j < r.columns; ++j)
      largest = std::max(largest, bits_of(r.from[i * r.from_stride + j]) & 0x7fffffffu);
  return float_of(largest);
}

}  // namespace

void round_matrix(const MatrixRounding& rounding) {
  const float largest = largest_of(rounding);
  const float power = is_usual(largest) ? kUsualPower : power_for(largest);
  round_rows(rounding, power);
  rounding.scaling[0] = power, rounding.scaling[1] = 1.0f / power, rounding.scaling[2] = largest;
}

}  // namespace frugal::cpu
