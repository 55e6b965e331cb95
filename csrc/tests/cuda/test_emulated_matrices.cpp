// The kernels of matrices and of projected pairs, run on a CPU, against their references.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include "models/cpu/matrix_kernels.h"
#include "models/cpu/projected_pairs.h"
#include "models/cuda/matrix_kernels.h"
#include "models/cuda/projected_pairs.h"
#include "random_floats.h"

namespace frugal::emulated_matrices {
namespace {

using testing::Floats, testing::random_floats;

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
    with_dense = {left.data(), right.data(), terms, dense.data()};
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

// Two chunks, whose edges ascend within a row.
TEST(EmulatedProjectedPairs, AgreeWithTheHost) {
  std::mt19937 random(2);
  for (const auto& [height, width, negatives] :
       {std::array{1, 1, 1}, {5, 8, 3}, {33, 20, 140}, {12, 110, 5}, {107, 3, 19}}) {
    Case c(height, width, random);
    for (std::int64_t u = 0; u < c.m.count; ++u)
      std::sort(c.occurrence.begin() + c.offset[u], c.occurrence.begin() + c.offset[u + 1]);
    const ProjectedPairs p{c.m, c.m.edges / 2, negatives};
    const Floats candidates = random_floats(2 * negatives * height, random);
    const Floats slope = random_floats(c.m.edges * negatives, random);
    const Floats query = random_floats(c.m.edges * width, random);
    Floats found(slope.size() * width, NAN), expected(found), distances(slope.size(), NAN), far(distances);
    cuda::project(p, candidates.data(), query.data(), found.data(), distances.data(), {});
    cpu::project(p, candidates.data(), query.data(), expected.data(), far.data());
    expect_near(distances, far);
    std::size_t runs = 0;
    std::set<std::pair<std::int32_t, std::int32_t>> distinct;
    for (std::int64_t o = 0; o < c.m.edges; ++o) {
      runs += p.begins(o);
      distinct.insert({p.chunk(o), c.slot[c.occurrence[o]]});
      for (std::int64_t i = o * negatives * width; i < (o + 1) * negatives * width; ++i) {
        ASSERT_EQ(std::isnan(found[i]), !p.begins(o));
        if (!std::isnan(found[i])) {
          ASSERT_NEAR(found[i], expected[i], 1e-4f);
        }
      }
    }
    EXPECT_EQ(runs, distinct.size());

    Floats own = query;
    for (std::int64_t j = 0; j < width; ++j)  // equal rows, which have no slope
      own[c.occurrence[0] * width + j] = expected[j];
    Floats back(2 * p.kStripes * negatives * height, NAN), back_too(back);
    std::vector<std::int32_t> rows(2 * (p.chunk_size + 1), -1), rows_too(rows);
    cuda::project_back(p, own.data(), slope.data(), expected.data(), rows.data(), back.data(), {});
    cpu::project_back(p, own.data(), slope.data(), expected.data(), rows_too.data(), back_too.data());
    EXPECT_EQ(rows, rows_too);
    expect_near(back, back_too);

    Floats of_matrices(c.m.edges * height * width, NAN), of_matrices_too(of_matrices), of_query(query.size(), NAN);
    Floats of_query_too(of_query);
    cuda::differentiate_matrices(p, candidates.data(), own.data(), slope.data(), expected.data(), of_matrices.data(),
                                 of_query.data(), {});
    cpu::differentiate_matrices(p, candidates.data(), own.data(), slope.data(), expected.data(),
                                of_matrices_too.data(), of_query_too.data());
    expect_near(of_matrices, of_matrices_too);
    expect_near(of_query, of_query_too);
  }
}

}  // namespace
}  // namespace frugal::emulated_matrices
