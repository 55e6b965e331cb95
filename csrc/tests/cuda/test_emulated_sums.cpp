// The sums of a row's gradients, run on a CPU, against the CPU's own.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "kernels/cpu/segment_sums.h"
#include "kernels/cuda/segment_sums.h"

namespace frugal {
namespace {

// Rows without occurrences, with a few, and with more than a warp walks over or a block loads at a time; dims beyond
// which blocks share a row, by few rows and by many.
TEST(EmulatedSums, AreTheCpus) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  const std::pair<std::int64_t, std::int64_t> cases[] = {{1, 1}, {3, 700}, {9, 130}, {40, 300}, {600, 33}, {17000, 130}};
  for (const auto& [rows, dim] : cases) {
    std::vector<std::int32_t> offset{0};
    for (std::int64_t u = 0; u < rows; ++u) {
      const auto count = u % 20 == 0 && u < 60 ? 300 : u % 20 == 1 && u < 60 ? 40 : random() % 4;
      offset.push_back(offset.back() + static_cast<std::int32_t>(count));
    }
    std::vector<std::int32_t> order(offset.back());
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    std::vector<float> values(order.size() * dim), sums(rows * dim, 7.0f), expected = sums;
    for (float& value : values) value = normal(random);
    const EntryGradients segments{values.data(), dim, offset.data(), order.data()};
    cuda::segment_sums(segments, rows, dim, sums.data(), {});
    cpu::segment_sums(segments, rows, dim, expected.data());
    EXPECT_EQ(sums, expected) << rows << " rows of " << dim;
  }
}

}  // namespace
}  // namespace frugal
