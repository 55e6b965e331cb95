// Sums of a softmax over all entities, on the CPU.
#include "full_softmax/cpu/tile_kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

namespace frugal {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// Largest, total and wanted of one query with these scores, by tiles of so many columns and parts of them, whose answer
// is column 0.
std::array<float, 3> sums_of(std::vector<float> scores, std::int64_t columns, float bound, std::int64_t part) {
  const std::int64_t answer = 0, begin = 0, end = 1;
  float largest = kLeastScore, total = 0.0f, wanted = 0.0f;
  const auto count = static_cast<std::int64_t>(scores.size());
  for (std::int64_t first = 0; first < count; first += columns) {
    const std::int64_t here = std::min(columns, count - first), stride = (here + 15) / 16 * 16;
    std::vector<float> tile(stride, 7.0f);
    std::copy_n(scores.begin() + first, here, tile.begin());
    cpu::add_tile({tile.data(), 1, here, stride, first, bound}, {&answer, &begin, &end}, {&largest, &total, &wanted},
                  part);
  }
  return {largest, total, wanted};
}

float loss_of(const std::vector<float>& scores, std::int64_t columns, float bound) {
  const auto [largest, total, wanted] = sums_of(scores, columns, bound, columns);
  return largest + std::log(total) - wanted;
}

TEST(FullSoftmax, LossesAreCrossEntropies) {
  std::vector<float> scores(53);
  for (std::size_t j = 0; j < scores.size(); ++j) scores[j] = std::sin(static_cast<float>(j));
  double sum = 0.0;
  for (const float x : scores) sum += std::exp(x);
  for (const std::int64_t columns : {7, 16, 53})
    for (const float bound : {0.0f, 20.0f})
      EXPECT_NEAR(loss_of(scores, columns, bound), std::log(sum) - scores[0], 1e-5);
}

TEST(FullSoftmax, PartsOfATileHaveTheBitsOfTiles) {
  std::vector<float> scores(1003);
  for (std::size_t j = 0; j < scores.size(); ++j) scores[j] = 3.0f * std::sin(static_cast<float>(j * j));
  EXPECT_NE(sums_of(scores, 1003, 0.0f, 1003), sums_of(scores, 16, 0.0f, 16));
  for (const std::int64_t columns : {16, 64, 512})
    for (const float bound : {0.0f, 2.0f})
      EXPECT_EQ(sums_of(scores, 1003, bound, columns), sums_of(scores, columns, bound, columns));
}

// Of any entity, in the first tile or another one.
TEST(FullSoftmax, NaNIsNotLeftOut) {
  for (const std::int64_t columns : {7, 16, 53})
    for (const float bound : {0.0f, 20.0f})
      for (const std::size_t place : {0, 5, 20, 52}) {
        std::vector<float> scores(53, 0.5f);
        scores[place] = kNaN;
        EXPECT_TRUE(std::isnan(loss_of(scores, columns, bound))) << place << " by " << columns;
      }
}

}  // namespace
}  // namespace frugal
