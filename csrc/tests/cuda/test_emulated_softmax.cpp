// The kernels of a softmax over all entities, run on a CPU, against the formulas in double.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "full_softmax/cpu/tile_kernels.h"
#include "full_softmax/cuda/tile_kernels.h"

namespace frugal {
namespace {

constexpr std::int64_t kQueries = 5;

// Scores of all entities for each query, in tiles whose rows are whole vectors; what fills them up is NaN.
struct Case {
  const std::int64_t entities, tile, stride;
  const float bound;
  std::vector<float> scores = std::vector<float>(kQueries * entities), on, off, scale;
  std::vector<std::int64_t> ids, begin, end;

  Case(std::int64_t count, std::int64_t of_tile, float limit, float spread, bool smooth, std::mt19937& random)
      : entities(count), tile(of_tile), stride((of_tile + 15) / 16 * 16), bound(limit) {
    std::normal_distribution<float> normal;
    for (float& score : scores) score = spread * normal(random);
    for (std::int64_t i = 0; i < kQueries; ++i) {
      std::vector<std::int64_t> all(entities);
      std::iota(all.begin(), all.end(), 0);
      std::shuffle(all.begin(), all.end(), random);
      const std::int64_t answers = smooth ? std::min<std::int64_t>(entities, 1 + 20 * i) : 1;
      std::sort(all.begin(), all.begin() + answers);
      begin.push_back(static_cast<std::int64_t>(ids.size()));
      ids.insert(ids.end(), all.begin(), all.begin() + answers);
      end.push_back(static_cast<std::int64_t>(ids.size()));
      off.push_back(smooth ? 0.3f / static_cast<float>(entities) : 0.0f);
      on.push_back(smooth ? 0.7f / static_cast<float>(answers) : 1.0f);
      scale.push_back(0.5f + 0.1f * static_cast<float>(i));
    }
  }

  SoftmaxTargets targets(bool given) const {
    return {ids.data(), begin.data(), end.data(), given ? on.data() : nullptr, given ? off.data() : nullptr};
  }
  double score(std::int64_t i, std::int64_t j) const {
    const double x = scores[i * entities + j];
    return bound > 0 ? std::clamp<double>(x, -bound, bound) : x;
  }
  double wanted(std::int64_t i, std::int64_t j) const {
    const bool is_answer = std::binary_search(ids.begin() + begin[i], ids.begin() + end[i], j);
    return off[i] + (is_answer ? on[i] : 0.0f);
  }
  std::int64_t columns(std::int64_t first) const { return std::min(tile, entities - first); }
  // Aligned to whole vectors, as a device's memory is.
  ScoreTile fill(std::int64_t first, std::vector<float>& buffer) const {
    buffer.assign(kQueries * stride + 16, std::numeric_limits<float>::quiet_NaN());
    float* const data = buffer.data() + (16 - reinterpret_cast<std::uintptr_t>(buffer.data()) / 4 % 16) % 16;
    for (std::int64_t i = 0; i < kQueries; ++i)
      std::copy_n(&scores[i * entities + first], columns(first), data + i * stride);
    return {data, kQueries, columns(first), stride, first, bound};
  }
};

void check(const Case& each, bool targets_given) {
  const SoftmaxTargets targets = each.targets(targets_given);
  std::vector<float> largest(kQueries, kLeastScore), total(kQueries, 0.0f), wanted(kQueries, 0.0f), buffer;
  for (std::int64_t first = 0; first < each.entities; first += each.tile)
    cuda::add_tile(each.fill(first, buffer), targets, {largest.data(), total.data(), wanted.data()}, {});
  std::vector<float> log_sum(kQueries);
  for (std::int64_t i = 0; i < kQueries; ++i) {
    double top = -1e30, sum = 0, expected = 0;
    for (std::int64_t j = 0; j < each.entities; ++j) top = std::max(top, each.score(i, j));
    for (std::int64_t j = 0; j < each.entities; ++j) sum += std::exp(each.score(i, j) - top);
    for (std::int64_t j = 0; j < each.entities; ++j) expected += each.wanted(i, j) * each.score(i, j);
    EXPECT_EQ(largest[i], static_cast<float>(top));
    EXPECT_NEAR(total[i], sum, 2e-6 * sum);
    EXPECT_NEAR(wanted[i], expected, 2e-5 * (1 + std::fabs(expected)));
    log_sum[i] = static_cast<float>(top + std::log(sum));
  }
  for (std::int64_t first = 0; first < each.entities; first += each.tile) {
    const ScoreTile tile = each.fill(first, buffer);
    cuda::tile_slopes(tile, targets, log_sum.data(), each.scale.data(), {});
    for (std::int64_t i = 0; i < kQueries; ++i)
      for (std::int64_t j = 0; j < tile.columns; ++j) {
        const std::int64_t id = first + j;
        const bool beyond = each.bound > 0 && std::fabs(each.scores[i * each.entities + id]) > each.bound;
        const double share = std::exp(each.score(i, id) - log_sum[i]);
        const double slope = beyond ? 0 : each.scale[i] * (share - each.wanted(i, id));
        ASSERT_NEAR(tile.scores[i * each.stride + j], slope, 1e-6 + 2e-5 * share) << i << " " << id;
      }
  }
}

TEST(EmulatedSoftmax, OneAnswer) {
  std::mt19937 random(1);
  for (const auto& [entities, tile] : {std::pair{1, 1}, {7, 3}, {1025, 1025}, {2600, 1100}, {1500, 128}})
    check(Case(entities, tile, 0.0f, 3.0f, false, random), false);
}

TEST(EmulatedSoftmax, AllAnswersAndSmoothing) {
  std::mt19937 random(2);
  for (const auto& [entities, tile] : {std::pair{7, 3}, {1025, 1025}, {2600, 1100}})
    check(Case(entities, tile, 0.0f, 3.0f, true, random), true);
}

TEST(EmulatedSoftmax, BoundedScores) {
  std::mt19937 random(3);
  check(Case(1300, 600, 20.0f, 15.0f, true, random), true);
}

TEST(EmulatedSoftmax, LargeScoresDoNotOverflow) {
  std::mt19937 random(4);
  check(Case(1300, 600, 0.0f, 300.0f, false, random), false);
}

// Rows are updated and dropped by the CPU's own bits; of the longest several warps share each.
TEST(EmulatedSoftmax, UpdatesAndDropoutAreTheCpus) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  for (const std::int64_t dim : {5, 64, 203, 1300}) {
    for (const Optimizer optimizer : {Optimizer::kRowwiseAdagrad, Optimizer::kAdagrad, Optimizer::kAdam}) {
      const float corrections[] = {0.01f, 1.5f};
      const UpdateRule rule{optimizer, 0.1f, 1e-8f, optimizer == Optimizer::kAdam ? corrections : nullptr};
      const std::int64_t rows = 19, first = 3, count = 11, stride = dim + rule.state_floats(dim) + 2;
      std::vector<float> table(rows * stride), gradients(count * dim), aside(2 * dim);
      for (float& x : table) x = std::fabs(normal(random));
      for (float& x : gradients) x = normal(random);
      std::vector<std::int32_t> slot(rows, -1);
      slot[4] = 1, slot[9] = 0;
      std::vector<float> here = table, aside_here = aside;
      cuda::update_tile({table.data(), stride, dim}, first, count, gradients.data(), dim, slot.data(), aside.data(),
                        rule, {});
      cpu::update_tile({here.data(), stride, dim}, first, count, gradients.data(), dim, slot.data(),
                       aside_here.data(), rule);
      const std::int64_t ids[] = {4, 9, 0};
      const std::int32_t used = 2;
      cuda::update_rows({table.data(), stride, dim}, ids, &used, 3, gradients.data(), rule, {});
      cpu::update_rows({here.data(), stride, dim}, ids, &used, gradients.data(), rule);
      EXPECT_EQ(table, here);
      EXPECT_EQ(aside, aside_here);
    }
    const std::int64_t step = 7;
    std::vector<float> dropped(11 * dim, 1.0f), here = dropped;
    cuda::drop({0.4f, 77, &step, 2, 5}, 11, dim, dim, dropped.data(), {});
    cpu::drop({0.4f, 77, &step, 2, 5}, 11, dim, dim, here.data());
    EXPECT_EQ(dropped, here);
  }
}

}  // namespace
}  // namespace frugal
