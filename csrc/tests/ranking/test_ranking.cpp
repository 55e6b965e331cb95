// Counting and shortlisting against plain loops over exact keys, on every kernel this processor runs.
#include "ranking/ranking.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "base/parallel/thread_pool.h"
#include "ranking/best_rows.h"
#include "ranking/pair_keys.h"
#include "ranking/tile_kernel.h"

namespace frugal {
namespace {

struct Matrix {
  std::vector<float> values;
  RowsView view;

  Matrix(std::int64_t rows, std::int64_t dim, std::int64_t stride, unsigned seed)
      : values(rows * stride, std::numeric_limits<float>::quiet_NaN()) {  // the gap between rows must not be read
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t k = 0; k < dim; ++k) values[i * stride + k] = normal(random);
    }
    view = {values.data(), rows, dim, stride};
  }
};

const Operation kOperations[] = {Operation::kDot, Operation::kL1, Operation::kModulus};

struct Shape {
  std::int64_t queries, rows, dim;
};
const Shape kShapes[] = {{1, 1, 2},       {5, 7, 6},    {13, 127, 34}, {25, 1031, 128},
                         {3, 2000, 400}, {40, 300, 2}, {7, 65, 2050}};

float error_bound(const Matrix& queries, std::int64_t query, const Matrix& table) {
  double a = 0, longest = 0;
  for (std::int64_t k = 0; k < table.view.dim; ++k) a += std::abs(queries.view.row(query)[k]);
  for (std::int64_t i = 0; i < table.view.rows; ++i) {
    double b = 0;
    for (std::int64_t k = 0; k < table.view.dim; ++k) b = std::max<double>(b, std::abs(table.view.row(i)[k]));
    longest = std::max(longest, b);
  }
  return static_cast<float>((table.view.dim + 10) * 6e-8 * (a * (1 + longest) + table.view.dim * longest));
}

TEST(CountBetter, AgreesWithExactKeys) {
  for (Operation operation : kOperations) {
    for (const Shape& shape : kShapes) {
      const Matrix queries(shape.queries, shape.dim, shape.dim + 3, 1), table(shape.rows, shape.dim, shape.dim + 1, 2);
      std::vector<std::int64_t> excluded_pointers(shape.queries + 1), excluded, positives(shape.queries + 1);
      std::vector<float> low, high;
      std::vector<double> thresholds;
      for (std::int64_t q = 0; q < shape.queries; ++q) {
        for (std::int64_t row = q % 3; row < shape.rows; row += 17) excluded.push_back(row);
        excluded_pointers[q + 1] = static_cast<std::int64_t>(excluded.size());
        for (std::int64_t i = 0; i < q % 4; ++i) {  // some queries have no threshold
          const double key = pair_key(operation, queries.view.row(q), table.view.row(i * 5 % shape.rows), shape.dim);
          thresholds.push_back(key);
          low.push_back(static_cast<float>(key) - error_bound(queries, q, table));
          high.push_back(static_cast<float>(key) + error_bound(queries, q, table));
        }
        positives[q + 1] = static_cast<std::int64_t>(thresholds.size());
      }
      std::vector<std::int64_t> better(thresholds.size());
      RankingTask task = {operation, queries.view, table.view, nullptr, {excluded_pointers.data(), excluded.data()},
                          positives.data(), low.data(), high.data(), nullptr, 0, 1};
      for (const UncertainPair& pair : count_better(task, better.data())) {
        const auto query = std::upper_bound(positives.begin(), positives.end(), pair.threshold) - positives.begin() - 1;
        const double key = pair_key(operation, queries.view.row(query), table.view.row(pair.row), shape.dim);
        better[pair.threshold] += key > thresholds[pair.threshold];
      }
      for (std::int64_t q = 0; q < shape.queries; ++q) {
        for (std::int64_t i = positives[q]; i < positives[q + 1]; ++i) {
          std::int64_t expected = 0;
          for (std::int64_t row = 0; row < shape.rows; ++row) {
            if (row % 17 == q % 3) continue;  // excluded
            expected += pair_key(operation, queries.view.row(q), table.view.row(row), shape.dim) > thresholds[i];
          }
          ASSERT_EQ(better[i], expected)
              << "query " << q << " of " << shape.queries << "x" << shape.rows << "x" << shape.dim;
        }
      }
    }
  }
}

TEST(CountBetter, ListsOfCandidatesWithRepetition) {
  const Matrix queries(5, 16, 16, 1), table(50, 16, 16, 2);
  const std::vector<std::int64_t> candidates = {3, 3, 49, 7, 0, 1, 2, 2, 9, 4, 5, 6};  // 2, 2 and 1 queries share four
  const std::vector<std::int64_t> excluded_pointers = {0, 1, 1, 1, 2, 2}, excluded = {3, 2};
  const std::vector<std::int64_t> positives = {0, 1, 2, 3, 4, 5};
  const std::vector<float> low(5, -1e30f), high(5, -1e30f);
  const std::vector<std::int64_t> expected = {2, 4, 4, 2, 4};
  std::vector<std::int64_t> better(5);
  RankingTask task = {Operation::kDot, queries.view, table.view, nullptr, {excluded_pointers.data(), excluded.data()},
                      positives.data(), low.data(), high.data(), candidates.data(), 4, 2};
  EXPECT_TRUE(count_better(task, better.data()).empty());
  EXPECT_EQ(better, expected);
}

TEST(BestRows, ContainTheBest) {
  for (Operation operation : kOperations) {
    for (const Shape& shape : kShapes) {
      for (std::int64_t count : {1, 10, 100}) {
        const Matrix queries(shape.queries, shape.dim, shape.dim, 1), table(shape.rows, shape.dim, shape.dim + 2, 2);
        std::vector<float> slack;
        for (std::int64_t q = 0; q < shape.queries; ++q) slack.push_back(2 * error_bound(queries, q, table));
        const std::vector<FoundRow> found =
            best_rows({operation, queries.view, table.view, nullptr, count, slack.data(), 0.0f});
        for (std::int64_t q = 0; q < shape.queries; ++q) {
          std::vector<std::pair<double, std::int64_t>> all;
          for (std::int64_t row = 0; row < shape.rows; ++row) {
            all.push_back({-pair_key(operation, queries.view.row(q), table.view.row(row), shape.dim), row});
          }
          std::sort(all.begin(), all.end());
          std::int64_t mine = 0;
          for (const FoundRow& pair : found) mine += pair.query == q;
          EXPECT_LE(mine, std::min(shape.rows, 2 * count + 20));
          for (std::int64_t i = 0; i < std::min(count, shape.rows); ++i) {
            ASSERT_TRUE(std::any_of(found.begin(), found.end(), [&](const FoundRow& pair) {
              return pair.query == q && pair.row == all[i].second;
            }));
          }
        }
      }
    }
  }
}

// The baseline kernel must be right too where the tests run on a processor that would not choose it.
TEST(TileKernel, BaselineAgreesWithTheChosenOne) {
  const TileKernel &baseline = baseline_tile_kernel(), &chosen = tile_kernel();
  const std::int64_t dim = 22, rows = 64;
  for (auto function : {&TileKernel::dot, &TileKernel::l1, &TileKernel::modulus}) {
    std::vector<std::vector<float>> tiles;
    for (const TileKernel* kernel : {&baseline, &chosen}) {
      std::vector<float> queries(kernel->strip_queries * dim), packed(rows * dim), tile(kernel->strip_queries * rows);
      for (std::int64_t k = 0; k < dim; ++k) {
        for (std::int64_t q = 0; q < kernel->strip_queries; ++q) {
          queries[k * kernel->strip_queries + q] = std::sin(static_cast<float>(k * 31 + q % 4));
        }
        for (std::int64_t row = 0; row < rows; ++row) {
          const std::int64_t strip = row / kernel->strip_rows, lane = row % kernel->strip_rows;
          packed[(strip * dim + k) * kernel->strip_rows + lane] = std::cos(static_cast<float>(k * 17 + row));
        }
      }
      (kernel->*function)(queries.data(), packed.data(), dim, rows, tile.data());
      tile.resize(4 * rows);
      tiles.push_back(tile);
    }
    for (std::size_t i = 0; i < tiles[0].size(); ++i) ASSERT_NEAR(tiles[0][i], tiles[1][i], 1e-4);
  }
}

TEST(TileKernel, CountsStrictlyAndNot) {
  for (const TileKernel* kernel : {&baseline_tile_kernel(), &tile_kernel()}) {
    std::vector<float> row(64);
    for (int i = 0; i < 64; ++i) row[i] = static_cast<float>(i % 8);
    row[63] = -std::numeric_limits<float>::infinity();
    std::int64_t above_low, above_high;
    kernel->count(row.data(), 64, 3.0f, 5.0f, &above_low, &above_high);
    EXPECT_EQ(above_low, 39);
    EXPECT_EQ(above_high, 15);
  }
}

}  // namespace
}  // namespace frugal
