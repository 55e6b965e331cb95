// The warp's program against the plain loops of table/. Kernels of a step's rows: tests/kernels/test_plan_kernels.py.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "rows/cpu/host_warp.h"
#include "rows/row_program.h"
#include "table/row_adagrad.h"

namespace frugal {
namespace {

std::vector<float> normal_floats(std::size_t count, int seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (auto& value : values) value = normal(random) * (1 + random() % 1000);
  return values;
}

// 512 elements fill the first level of the cascade, 8192 the second, 131072 the third.
TEST(WarpMeanSquare, HasTheBitsOfThePlainLoop) {
  std::vector<std::int64_t> dims = {4095,   8191, 8192, 8193, 8704, 16384 + 33, 131072, 131072 + 8192 + 512 + 37,
                                    1 << 20};
  for (std::int64_t dim = 1; dim < 1200; ++dim) dims.push_back(dim);
  const auto gradient = normal_floats(1 << 20, 1);
  for (const auto dim : dims) {
    const float expected = mean_square(gradient.data(), dim);
    const float* const both[2] = {gradient.data(), gradient.data()};
    float actual[2];
    warp_mean_squares<HostWarp, 2>(both, dim, sum_level_power(dim / kSumPartials), actual);
    for (const float each : actual) ASSERT_EQ(std::memcmp(&expected, &each, sizeof expected), 0) << "dim " << dim;
  }
}

}  // namespace
}  // namespace frugal
