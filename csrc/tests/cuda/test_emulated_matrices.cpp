// The kernels of matrices and of projected pairs, run on a CPU, against their twins.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "kernels/cpu/matrix_kernels.h"
#include "kernels/cpu/projected_pairs.h"
#include "kernels/cuda/matrix_kernels.h"
#include "kernels/cuda/projected_pairs.h"

namespace frugal {
namespace {

using Floats = std::vector<float>;

Floats random_floats(std::int64_t count, std::mt19937& random) {
  std::normal_distribution<float> normal;
  Floats values(count);
  for (float& value : values) value = normal(random);
  return values;
}

// Sums of another order agree but for rounding.
void expect_near(const Floats& found, const Floats& expected) {
  float most = 1e-30f;
  for (const float value : expected) most = std::max(most, std::fabs(value));
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 1e-5f * most) << i;
}

// Rows of a table in another order than there, the last two of which only pad, with 1 to 35 edges.
struct Case {
  static constexpr std::int64_t kRows = 7, kTable = 9;
  static constexpr std::int32_t kGroup = 2;
  std::int32_t terms;
  std::vector<std::int64_t> rows{4, 0, 3, 8, 1, 7, 7};
  std::vector<std::int32_t> offset{0}, occurrence, slot;
  MatrixRows m{};
  Floats table, left, right, dense;
  MatrixGradients factors, with_dense;

  Case(std::int64_t height, std::int64_t width, std::mt19937& random, std::int32_t of_edge = 2) : terms(of_edge) {
    for (const std::int32_t edges : {1, 3, 35, 8, 1, 0, 0}) offset.push_back(offset.back() + edges);
    const std::int64_t edges = offset.back();
    occurrence.resize(edges), slot.resize(edges);
    std::iota(occurrence.begin(), occurrence.end(), 0);
    std::shuffle(occurrence.begin(), occurrence.end(), random);
    for (std::int32_t u = 0; u < kRows; ++u)
      for (std::int32_t o = offset[u]; o < offset[u + 1]; ++o) slot[occurrence[o]] = u;
    const std::int64_t stride = (height * width + 32) / 32 * 32;
    table = random_floats(kTable * stride, random);
    for (std::int64_t row = 0; row < kTable; ++row) table[row * stride + height * width] = 0.1f * row;
    left = random_floats(edges * terms * height, random);
    right = random_floats(edges * terms * width, random);
    dense = random_floats(edges * height * width, random);
    m = {table.data(), stride, rows.data(), kRows, height, width, offset.data(), occurrence.data(), slot.data(), edges};
    factors = {left.data(), right.data(), terms};
    with_dense = {left.data(), right.data(), terms, dense.data(), kGroup};
  }
};

void expect_the_same_products(const Case& c, std::mt19937& random) {
  for (const bool transposed : {false, true})
    for (const std::int64_t vectors : {1, 2, 3}) {
      const std::int64_t in = transposed ? c.m.height : c.m.width, out = transposed ? c.m.width : c.m.height;
      const Floats x = random_floats(c.m.edges * vectors * in, random);
      Floats found(c.m.edges * vectors * out, NAN), expected(found);
      cuda::matrix_products(c.m, transposed, x.data(), vectors, found.data(), {});
      cpu::matrix_products(c.m, transposed, x.data(), vectors, expected.data());
      expect_near(found, expected);
    }
}

void expect_the_same_update(Case& c, const MatrixPenalty& penalty) {
  const std::int64_t tiles = matrix_tiles(c.m.height, c.m.width);
  const MatrixGradients entries[] = {c.factors, c.with_dense};
  Floats found(2 * tiles * c.m.edges, NAN), expected(found), amounts(tiles * c.m.edges, NAN), expected_amounts(amounts);
  cuda::matrix_squares(c.m, entries, 2, penalty, found.data(), amounts.data(), {});
  cpu::matrix_squares(c.m, entries, 2, penalty, expected.data(), expected_amounts.data());
  expect_near(found, expected);
  const auto sum = [](const Floats& of) { return std::accumulate(of.begin(), of.end(), 0.0); };
  EXPECT_NEAR(sum(amounts), sum(expected_amounts), 1e-5 * sum(expected_amounts));

  Floats deviations(2 * c.m.count), before = c.table;
  cuda::update_matrices(c.m, entries, 2, expected.data(), penalty, 0.1f, deviations.data(), {});
  found = c.table;
  std::ranges::copy(before, c.table.begin());
  cpu::update_matrices(c.m, entries, 2, expected.data(), penalty, 0.1f, deviations.data());
  EXPECT_EQ(std::memcmp(found.data(), c.table.data(), found.size() * sizeof(float)), 0);
  EXPECT_NE(std::memcmp(before.data(), c.table.data(), found.size() * sizeof(float)), 0);
  std::ranges::copy(before, c.table.begin());
}

TEST(EmulatedMatrices, AgreeWithTheHost) {
  std::mt19937 random(1);
  for (const auto& [height, width] : {std::pair{1, 1}, {7, 7}, {3, 300}, {40, 33}, {270, 2}}) {
    Case c(height, width, random);
    expect_the_same_products(c, random);
    expect_the_same_update(c, {3.0f, 0.3f});
  }
}

TEST(EmulatedMatrices, AgreeWithEveryPenalty) {
  std::mt19937 random(3);
  for (const std::int32_t terms : {1, 2}) {
    Case c(5, 4, random, terms);
    for (const MatrixPenalty penalty : {MatrixPenalty{3.0f, 0.0f}, {2.0f, 0.1f}, {1.0f, 0.1f}, {2.5f, 1.0f}})
      expect_the_same_update(c, penalty);
  }
}

TEST(EmulatedProjectedPairs, AgreeWithTheHost) {
  std::mt19937 random(2);
  for (const ProjectedShape& s : {ProjectedShape{1, 1, 1, 1}, {3, 5, 2, 7}, {2, 19, 8, 100}, {5, 8, 1, 33}}) {
    const std::int64_t edges = s.groups * s.edges;
    const Floats query = random_floats(edges * s.columns, random), weight = random_floats(edges * s.negatives, random);
    Floats projected = random_floats(s.rows() * s.columns, random), expected_projected;
    std::copy_n(query.begin(), s.columns, projected.begin());  // of equal rows, which have no slope
    expected_projected = projected;
    Floats found(edges * s.negatives, NAN), expected(found), of_query(query.size(), NAN), expected_of_query(of_query);
    cuda::projected_distances(s, query.data(), projected.data(), found.data(), {});
    cpu::projected_distances(s, query.data(), projected.data(), expected.data());
    expect_near(found, expected);
    cuda::projected_gradients(s, query.data(), weight.data(), projected.data(), of_query.data(), {});
    cpu::projected_gradients(s, query.data(), weight.data(), expected_projected.data(), expected_of_query.data());
    EXPECT_EQ(projected, expected_projected);
    EXPECT_EQ(of_query, expected_of_query);
    EXPECT_EQ(std::count(projected.begin(), projected.begin() + s.columns, 0.0f), s.columns);
  }
}

}  // namespace
}  // namespace frugal
