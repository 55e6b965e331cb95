// The update against a plain loop, to the bit, for awkward sizes.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "table/mean_square.h"
#include "table/row_update.h"

namespace frugal {
namespace {

struct Case {
  RowLayout layout;
  std::vector<float> row;
  std::vector<std::vector<float>> gradients;
  std::vector<const float*> pointers;

  Case(std::int64_t dim, int count, unsigned seed) : layout(RowLayout::for_dim(dim)) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    row.resize(static_cast<std::size_t>(layout.stride), 7.0f);
    for (std::int64_t i = 0; i < dim; ++i) row[static_cast<std::size_t>(i)] = normal(random);
    row[static_cast<std::size_t>(dim)] = std::abs(normal(random));
    for (int k = 0; k < count; ++k) {
      // Unaligned on purpose: nothing promises where a gradient lies.
      gradients.emplace_back(static_cast<std::size_t>(dim + 1));
      for (float& x : gradients.back()) x = normal(random) * (k % 3 == 0 ? 1e-3f : 10.0f);
    }
    for (const auto& gradient : gradients) pointers.push_back(gradient.data() + 1);
  }
};

class RowUpdates : public ::testing::TestWithParam<std::int64_t> {};

TEST_P(RowUpdates, AdagradEqualsThePlainLoopToTheBit) {
  const std::int64_t dim = GetParam();
  for (const int count : {1, 2, 7}) {
    Case c(dim, count, static_cast<unsigned>(dim + count));
    std::vector<float> expected = c.row;
    volatile float state =
        expected[static_cast<std::size_t>(dim)];  // volatile: one operation at a time, nothing vectorised
    for (const float* g : c.pointers) state = state + mean_square(g, dim);
    for (const float* g : c.pointers)
      for (std::int64_t i = 0; i < dim; ++i) {
        volatile float deviation = std::sqrt(static_cast<float>(state));
        deviation = deviation + 1e-10f;
        volatile float change = -0.25f * g[i];
        change = change / deviation;
        expected[static_cast<std::size_t>(i)] = expected[static_cast<std::size_t>(i)] + change;
      }
    expected[static_cast<std::size_t>(dim)] = state;
    RowAdagradUpdate(0.25f).apply(c.row.data(), c.pointers, c.layout);
    EXPECT_EQ(std::memcmp(c.row.data(), expected.data(), expected.size() * 4), 0) << dim << " x " << count;
  }
}

INSTANTIATE_TEST_SUITE_P(Dims, RowUpdates, ::testing::Values(1, 3, 4, 7, 8, 31, 32, 33, 50, 127, 400, 513, 1000));

}  // namespace
}  // namespace frugal
