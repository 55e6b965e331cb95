#include "table/row_adagrad.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace frugal {
namespace {

TEST(MeanSquare, AgreesWithDoublePrecisionAtAwkwardSizes) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (const int dim : {1, 2, 4, 5, 7, 8, 9, 31, 32, 33, 127, 400, 511, 512, 513, 1000, 160000}) {
    std::vector<float> gradient(dim);
    double exact = 0;
    for (auto& g : gradient) g = normal(random);
    for (const auto g : gradient) exact += static_cast<double>(g) * g;
    exact /= dim;
    EXPECT_NEAR(mean_square(gradient.data(), dim), exact, 2e-6 * exact) << "dim " << dim;
  }
}

// Adding 1 to 2^24 leaves float32 unchanged; the cascade keeps small terms apart from large ones.
TEST(MeanSquare, KeepsPrecisionOverLongRows) {
  const std::vector<float> ones(1 << 25, 1.0f);
  EXPECT_EQ(mean_square(ones.data(), ones.size()), 1.0f);
}

TEST(RowAdagrad, DuplicatesSeeTheSummedState) {
  const RowAdagrad update{0.5f};
  float row[1] = {1.0f}, state = 0.0f;
  const float gradients[2][1] = {{3.0f}, {4.0f}};
  for (const auto& g : gradients) update.accumulate(state, g, 1);
  for (const auto& g : gradients) update.apply(row, state, g, 1);
  EXPECT_EQ(state, 25.0f);
  EXPECT_FLOAT_EQ(row[0], 1.0f - 0.5f * 3.0f / 5.0f - 0.5f * 4.0f / 5.0f);
}

}  // namespace
}  // namespace frugal
