// The kernels of a softmax over all entities, run on a CPU, against the formulas in double.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "full_softmax/cpu/penalty.h"
#include "full_softmax/cpu/round_matrix.h"
#include "full_softmax/cpu/tile_kernels.h"
#include "full_softmax/cuda/penalty.h"
#include "full_softmax/cuda/round_matrix.h"
#include "full_softmax/cuda/tile_kernels.h"

namespace frugal::emulated_softmax {
namespace {

constexpr std::int64_t kQueries = 5;

// Scores of all entities for each query, in tiles whose rows are whole vectors; what fills them up is NaN.
struct Case {
  const std::int64_t entities, tile, stride;
  const float bound;
  const float* unit = nullptr;  // a power of two
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
      std::transform(&scores[i * entities + first], &scores[i * entities + first] + columns(first), data + i * stride,
                     [&](float x) { return unit ? x / *unit : x; });
    return {data, kQueries, columns(first), stride, first, bound, unit};
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
    cuda::tile_slopes(tile, targets, log_sum.data(), each.scale.data(), {}, {});
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

// In numbers of 16 bits slopes are those of float32, rounded: over the scores, without the queries' scales, and with
// zeros up to a whole word. The CPU's differ by what its exponential does.
void check_half(const Case& each) {
  constexpr float kFactor = 64.0f;
  const SoftmaxTargets targets = each.targets(true);
  const std::vector<float> log_sum(kQueries, 2.0f), factors(kQueries, kFactor);
  std::vector<float> wide, narrow, of_cpu;
  for (std::int64_t first = 0; first < each.entities; first += each.tile) {
    const ScoreTile exact = each.fill(first, wide), tile = each.fill(first, narrow), on_cpu = each.fill(first, of_cpu);
    const SlopeForm form{RowElement::kFloat16, kFactor};
    cuda::tile_slopes(exact, targets, log_sum.data(), factors.data(), {}, {});
    cuda::tile_slopes(tile, targets, log_sum.data(), nullptr, form, {});
    cpu::tile_slopes(on_cpu, targets, log_sum.data(), nullptr, form);
    for (std::int64_t i = 0; i < kQueries; ++i) {
      const auto half_of = [&](const ScoreTile& from, std::int64_t j) {
        return reinterpret_cast<const std::uint16_t*>(from.scores + i * from.stride)[j];
      };
      for (std::int64_t j = 0; j < form.columns(tile.columns); ++j) {
        const float slope = j < tile.columns ? exact.scores[i * each.stride + j] : 0.0f;
        ASSERT_EQ(half_of(tile, j), Half::round_to_nearest(slope)) << i << " " << j;
        ASSERT_NEAR(Half::expand(half_of(on_cpu, j)), slope, 0.01f * std::fabs(slope) + 1e-4f);
      }
    }
  }
}

TEST(EmulatedSoftmax, SlopesInHalfPrecision) {
  std::mt19937 random(7);
  for (const auto& [entities, tile] : {std::pair{1, 1}, {7, 3}, {1025, 1025}, {5000, 3001}, {20001, 20001}}) {
    for (const float bound : {0.0f, 3.0f}) check_half(Case(entities, tile, bound, 2.0f, true, random));
  }
}

TEST(EmulatedSoftmax, ScoresHaveAUnit) {
  const float unit = 1.0f / 4096;
  std::mt19937 random(8);
  for (Case each : {Case(2600, 1100, 0.0f, 3.0f, true, random), Case(1300, 600, 20.0f, 15.0f, true, random)}) {
    each.unit = &unit;
    check(each, true);
  }
}

// Scores of rounded products, one answer of a query: sums, and slopes in 16 bits to half a digit, over the scores.
void check_rounded(const Case& each) {
  constexpr float kFactor = 32768.0f;
  constexpr double kDigits = 1.0 / 2048;
  const SoftmaxTargets targets{each.ids.data(), each.begin.data(), each.end.data()};
  check(each, false);
  std::vector<float> log_sum(kQueries), buffer;
  for (std::int64_t i = 0; i < kQueries; ++i) {
    double sum = 0;
    for (std::int64_t j = 0; j < each.entities; ++j) sum += std::exp(each.score(i, j));
    log_sum[i] = static_cast<float>(std::log(sum));
  }
  for (std::int64_t first = 0; first < each.entities; first += each.tile) {
    const ScoreTile tile = each.fill(first, buffer);
    const SlopeForm form{RowElement::kFloat16, kFactor};
    cuda::tile_slopes(tile, targets, log_sum.data(), nullptr, form, {});
    for (std::int64_t i = 0; i < kQueries; ++i)
      for (std::int64_t j = 0; j < form.columns(tile.columns); ++j) {
        const auto half = reinterpret_cast<const std::uint16_t*>(tile.scores + i * tile.stride)[j];
        const double slope = Half::expand(half);
        if (j >= tile.columns) {
          ASSERT_EQ(slope, 0);
          continue;
        }
        const double share = std::exp(each.score(i, first + j) - log_sum[i]);
        const double wanted = kFactor * (share - each.wanted(i, first + j));
        const double allowed = kDigits * std::fabs(wanted) + 0x1p-25 + 2e-6 * kFactor * share;
        ASSERT_NEAR(slope, wanted, allowed) << i << " " << j;
      }
  }
}

TEST(EmulatedSoftmax, RoundedScoresTakeAQuickWay) {
  std::mt19937 random(10);
  for (const float unit : {1.0f / (1 << 20), 4096.0f})
    for (const auto& [entities, tile] : {std::pair{1, 1}, {7, 3}, {1025, 1025}, {5000, 3001}, {20001, 20001}}) {
      Case each(entities, tile, 0.0f, 2.0f, false, random);
      each.unit = &unit;
      check_rounded(each);
    }
}

// To the CPU's bits, whatever power the matrix needs.
TEST(EmulatedSoftmax, MatricesAreRoundedAsOnTheCpu) {
  std::mt19937 random(9);
  std::normal_distribution<float> normal;
  for (const float size : {1e-30f, 1e-5f, 1.0f, 1e4f})
    for (const auto& [rows, columns] : {std::pair<std::int64_t, std::int64_t>{1, 3}, {5, 8}, {67, 100}}) {
      const std::int64_t stride = columns / 4 * 4 + 8, wide = columns / 8 * 8 + 16;
      std::vector<float> room(rows * stride + 4);
      float* const from = room.data() + (4 - reinterpret_cast<std::uintptr_t>(room.data()) / 4 % 4) % 4;
      for (std::int64_t i = 0; i < rows * stride; ++i) from[i] = size * normal(random);
      std::vector<std::uint16_t> here((rows + 2) * wide, 1), there = here;
      std::vector<float> scaling(3), expected(3);
      cuda::round_matrix({from, rows, columns, stride, here.data(), rows + 2, wide, scaling.data()}, {});
      cpu::round_matrix({from, rows, columns, stride, there.data(), rows + 2, wide, expected.data()});
      EXPECT_EQ(here, there);
      EXPECT_EQ(scaling, expected);
    }
}

TEST(EmulatedSoftmax, OneAnswer) {
  std::mt19937 random(1);
  for (const auto& [entities, tile] : {std::pair{1, 1}, {7, 3}, {1025, 1025}, {2600, 1100}, {1500, 128}, {5000, 4500}})
    check(Case(entities, tile, 0.0f, 3.0f, false, random), false);
}

TEST(EmulatedSoftmax, AllAnswersAndSmoothing) {
  std::mt19937 random(2);
  for (const auto& [entities, tile] : {std::pair{7, 3}, {1025, 1025}, {2600, 1100}, {5000, 4500}})
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

// Against the formula in double, its slopes with the CPU's own bits; rows that occur never, once and often, and a zero.
TEST(EmulatedSoftmax, PenaltiesOfRows) {
  std::mt19937 random(11);
  std::normal_distribution<float> normal;
  constexpr std::int64_t kRows = 5;
  constexpr float kShare = 0.3f;
  for (const std::int64_t dim : {2, 100, 1300})
    for (const auto& [norm, is_complex] :
         {std::pair{3.0f, true}, {3.0f, false}, {2.0f, false}, {1.0f, false}, {1.5f, false}, {0.5f, false}}) {
      const std::vector<std::int32_t> times{0, 1, 7, 1, 300};
      std::vector<float> rows(kRows * dim), slopes(kRows * dim), expected = slopes;
      for (float& x : rows) x = normal(random);
      rows[2 * dim] = 0.0f;
      std::vector<double> amounts(kRows), of_cpu(kRows);
      RowPenalty penalty{rows.data(), times.data(), kRows,         dim,           norm,
                         is_complex,  kShare,       slopes.data(), amounts.data()};
      cuda::penalize_rows(penalty, {});
      penalty.slopes = expected.data(), penalty.amounts = of_cpu.data();
      cpu::penalize_rows(penalty);
      EXPECT_EQ(slopes, expected);
      for (std::int64_t u = 0; u < kRows; ++u) {
        double sum = 0;
        for (std::int64_t k = 0; k < dim; ++k) {
          const double x = rows[u * dim + k], other = rows[u * dim + (k + dim / 2) % dim];
          const double size = is_complex ? std::hypot(x, other) : std::fabs(x);
          sum += is_complex ? x * x * size : std::pow(size, norm);  // two squares make a cube of the modulus
          const double power = size == 0 ? 0 : std::pow(size, norm - 2) * x;
          ASSERT_NEAR(slopes[u * dim + k], kShare * times[u] * power, 1e-5 * times[u] * (1 + size * size));
        }
        EXPECT_NEAR(amounts[u], times[u] * sum, 1e-5 * times[u] * sum);
        EXPECT_NEAR(of_cpu[u], amounts[u], 1e-12 * amounts[u]);
      }
    }
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
      const float unit = 0.25f;  // of the CPU's gradients, so that both are the same
      UpdateRule scaled = rule;
      scaled.unit = &unit;
      std::vector<float> larger = gradients;
      for (float& x : larger) x /= unit;
      cpu::update_tile({here.data(), stride, dim}, first, count, larger.data(), dim, slot.data(), aside_here.data(),
                       scaled);
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
}  // namespace frugal::emulated_softmax
