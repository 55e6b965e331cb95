// The kernels of each instruction set that this processor has, against plain loops, at awkward sizes, and against each
// other.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/linalg/buffer.h"
#include "models/similarity/similarity.h"

namespace frugal {
namespace {

struct Matrix {
  std::int64_t stride;
  std::vector<float> data;

  Matrix(std::int64_t rows, std::int64_t columns, std::uint32_t seed)
      : stride(padded_stride(columns + 16)), data(rows * stride, 0.0f) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < columns; ++j) data[i * stride + j] = uniform(random);
  }
  Rows rows() { return {data.data(), stride}; }
  float at(std::int64_t i, std::int64_t j) const { return data[i * stride + j]; }
};

double distance(Similarity similarity, const Matrix& a, std::int64_t i, const Matrix& b, std::int64_t j,
                std::int64_t k) {
  double sum = 0.0;
  for (std::int64_t p = 0; p < k; ++p) {
    const double x = a.at(i, p), y = b.at(j, p);
    if (similarity == Similarity::kL1)
      sum += std::fabs(x - y);
    else if (similarity == Similarity::kModulus)
      sum += p < k / 2 ? std::hypot(x - y, a.at(i, p + k / 2) - b.at(j, p + k / 2)) : 0.0;
    else
      sum += x * y;
  }
  return sum;
}

// d distance(a_i, b_j) / d a_ip, as the kernels leave it: without 1 / distance for L2.
double slope(Similarity similarity, const Matrix& a, std::int64_t i, const Matrix& b, std::int64_t j, std::int64_t p,
             std::int64_t k) {
  const double difference = static_cast<double>(a.at(i, p)) - b.at(j, p);
  switch (similarity) {
    case Similarity::kL1:
      return (difference > 0) - (difference < 0);
    case Similarity::kL2:
      return difference;
    case Similarity::kModulus: {
      const std::int64_t q = p < k / 2 ? p + k / 2 : p - k / 2;
      const double modulus = std::hypot(difference, static_cast<double>(a.at(i, q)) - b.at(j, q));
      return modulus > 0 ? difference / modulus : 0.0;
    }
    default:
      return b.at(j, p);
  }
}

class KernelsTest : public testing::TestWithParam<std::tuple<std::string, Similarity>> {
 protected:
  void SetUp() override {
    kernels_ = kernels(std::get<0>(GetParam()).c_str());
    if (!kernels_) GTEST_SKIP() << "this processor has no " << std::get<0>(GetParam());
  }
  const Kernels* kernels_ = nullptr;
  const Similarity similarity_ = std::get<1>(GetParam());
};

// Sizes below, at and above those of tiles and vectors. In the last row and the last negative everything is equal.
TEST_P(KernelsTest, AgreeWithPlainLoops) {
  for (const auto& [rows, others, k] : {std::array<std::int64_t, 3>{1, 1, 2}, {5, 3, 18}, {13, 33, 16}, {50, 47, 66}}) {
    Matrix query(rows, k, 1), negative(others, k, 2), weight(rows, others, 3), gradient(std::max(rows, others), k, 4);
    for (std::int64_t p = 0; p < k; ++p) query.data[(rows - 1) * query.stride + p] = negative.at(others - 1, p);
    const std::int64_t vectors = (others + 15) / 16;
    std::vector<float> panels(vectors * 16 * k);
    for (std::int64_t v = 0; v < vectors; ++v) {
      const float* packed[16];
      for (std::int64_t l = 0; l < 16; ++l) packed[l] = negative.rows()[std::min(v * 16 + l, others - 1)];
      kernels_->pack(packed, k, panels.data() + v * 16 * k);
    }
    Matrix values(rows, vectors * 16, 5);
    kernels_->compare(similarity_, rows, vectors, k, query.rows(), panels.data(), values.rows());
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < others; ++j)
        ASSERT_NEAR(values.at(i, j), distance(similarity_, query, i, negative, j, k), 1e-5 * k) << i << ", " << j;

    kernels_->gradient(similarity_, rows, others, k, query.rows(), negative.rows(), weight.data.data(), weight.stride,
                       1, gradient.rows());
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t p = 0; p < k; ++p) {
        double expected = 0.0;
        for (std::int64_t j = 0; j < others; ++j)
          expected += weight.at(i, j) * slope(similarity_, query, i, negative, j, p, k);
        ASSERT_NEAR(gradient.at(i, p), expected, 1e-5 * others) << "query " << i << ", " << p;
      }
    }
    kernels_->gradient(similarity_, others, rows, k, negative.rows(), query.rows(), weight.data.data(), 1,
                       weight.stride, gradient.rows());
    for (std::int64_t j = 0; j < others; ++j) {
      for (std::int64_t p = 0; p < k; ++p) {
        double expected = 0.0;
        for (std::int64_t i = 0; i < rows; ++i)
          expected += weight.at(i, j) * slope(similarity_, negative, j, query, i, p, k);
        ASSERT_NEAR(gradient.at(j, p), expected, 1e-5 * rows) << "negative " << j << ", " << p;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, KernelsTest,
                         testing::Combine(testing::Values("baseline", "avx512"),
                                          testing::Values(Similarity::kDot, Similarity::kL2, Similarity::kL1,
                                                          Similarity::kModulus)));

// One pass over the pairs gives both sides what a pass for each gives, to the bit: also when there are more others than
// stay in a cache, and a row that equals another.
TEST(Kernels, BothSidesInOnePass) {
  const std::int64_t rows = 21, others = 150, k = 58;
  for (const char* set : {"baseline", "avx512"}) {
    const Kernels* kernel = kernels(set);
    if (!kernel) continue;
    for (const Similarity similarity : {Similarity::kL1, Similarity::kModulus}) {
      Matrix a(rows, k, 1), b(others, k, 2), weight(rows, others, 3), mine(rows, k, 4), theirs(others, k, 5);
      for (std::int64_t p = 0; p < k; ++p) a.data[5 * a.stride + p] = b.at(140, p);
      kernel->gradient(similarity, rows, others, k, a.rows(), b.rows(), weight.data.data(), weight.stride, 1,
                       mine.rows());
      kernel->gradient(similarity, others, rows, k, b.rows(), a.rows(), weight.data.data(), 1, weight.stride,
                       theirs.rows());
      const std::int64_t parts = parts_of(similarity), part = k / parts, floats = 16 * parts;
      for (std::int64_t column = 0; column < part; column += 16) {
        std::vector<float> my_sum(rows * floats), their_sum(others * floats);
        kernel->gradients(similarity, rows, others, k, {a.data.data() + column, a.stride},
                          {b.data.data() + column, b.stride}, weight.data.data(), weight.stride, my_sum.data(),
                          their_sum.data());
        for (std::int64_t p = 0; p < parts; ++p) {
          for (std::int64_t l = 0; l < std::min<std::int64_t>(16, part - column); ++l) {
            const std::int64_t at = p * part + column + l, sum = p * 16 + l;
            for (std::int64_t i = 0; i < rows; ++i) ASSERT_EQ(my_sum[i * floats + sum], mine.at(i, at)) << set << i;
            for (std::int64_t j = 0; j < others; ++j)
              ASSERT_EQ(-their_sum[j * floats + sum], theirs.at(j, at)) << set << j;
          }
        }
      }
    }
  }
}

// A row longer or shorter by one must not change the others, and the same row gives the same bits in a block of any
// height.
TEST(Kernels, ARowDoesNotDependOnItsBlock) {
  const std::int64_t k = 37, others = 29, rows = 31;
  for (const char* set : {"baseline", "avx512"}) {
    const Kernels* kernel = kernels(set);
    if (!kernel) continue;
    for (const Similarity similarity : {Similarity::kDot, Similarity::kL2, Similarity::kL1}) {
      Matrix a(rows, k, 1), b(others, k, 2), weight(rows, others, 3), whole(rows, k, 4), one(1, k, 5);
      kernel->gradient(similarity, rows, others, k, a.rows(), b.rows(), weight.data.data(), weight.stride, 1,
                       whole.rows());
      for (std::int64_t i = 0; i < rows; ++i) {
        kernel->gradient(similarity, 1, others, k, {a.rows()[i], a.stride}, b.rows(), weight.rows()[i], weight.stride,
                         1, one.rows());
        for (std::int64_t p = 0; p < k; ++p) ASSERT_EQ(one.at(0, p), whole.at(i, p)) << set << " " << i << ", " << p;
      }
    }
  }
}

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN(), kInfinity = std::numeric_limits<float>::infinity();

std::vector<LossSpec> every_loss() {
  std::vector<LossSpec> losses;
  for (const LossGenre genre : {LossGenre::kSoftplus, LossGenre::kHinge})
    for (const auto& [pairwise, adversarial] : {std::pair{false, false}, {true, false}, {false, true}})
      losses.push_back({genre, 1.0f, pairwise, adversarial});
  losses.push_back({LossGenre::kSoftmax});
  return losses;
}

// The losses of a positive and its negatives, of which number `place` has the raw value `x`.
double loss_of_row(const Kernels& kernels, Similarity similarity, const LossSpec& loss, float positive,
                   std::int64_t negatives, std::int64_t place, float x) {
  const std::int64_t vectors = (negatives + 15) / 16;
  std::vector<float> values(vectors * 16, 0.5f), slope(values.size()), square(values.size(), 1.0f);
  values[place] = x;
  QueryRow row{};
  row.values = values.data();
  row.slope = slope.data();
  row.negatives = negatives;
  row.vectors = vectors;
  row.own = -1;
  row.query_square = 1.0f;
  row.negative_square = square.data();
  row.gamma = 2.0f;
  row.positive_score = positive;
  row.scale = 1.0f;
  const double of_negatives = kernels.score(similarity, loss, row).loss;
  return loss.joint() ? of_negatives : of_negatives + kernels.positive(loss, positive).loss;
}

// A score that is none makes a loss that is none, wherever it stands, and so does one that is infinitely wrong.
TEST(Kernels, NoLossHidesNaN) {
  for (const char* set : {"baseline", "avx512"}) {
    const Kernels* kernel = kernels(set);
    if (!kernel) continue;
    for (const LossSpec& loss : every_loss()) {
      for (const Similarity similarity : {Similarity::kDot, Similarity::kClampedDot, Similarity::kL2, Similarity::kL1,
                                          Similarity::kModulus}) {
        for (const std::int64_t negatives : {1, 16, 21, 70}) {
          const auto loss_with = [&](float positive, std::int64_t place, float x) {
            return loss_of_row(*kernel, similarity, loss, positive, negatives, place, x);
          };
          EXPECT_TRUE(std::isfinite(loss_with(1.0f, 0, 0.5f))) << set;
          EXPECT_TRUE(std::isnan(loss_with(kNaN, 0, 0.5f))) << set;
          EXPECT_FALSE(std::isfinite(loss_with(-kInfinity, 0, 0.5f))) << set;
          for (const std::int64_t place : {std::int64_t{0}, negatives / 2, negatives - 1})
            EXPECT_TRUE(std::isnan(loss_with(1.0f, place, kNaN))) << set << ", " << place << " of " << negatives;
          if (similarity == Similarity::kDot) {
            EXPECT_FALSE(std::isfinite(loss_with(1.0f, negatives - 1, kInfinity))) << set;
            EXPECT_FALSE(std::isnan(loss_with(1.0f, negatives - 1, -kInfinity))) << set;
          }
        }
      }
    }
  }
}

// Of a row of a softmax over very many columns: whatever instruction set, the same bits, which are those of e^x.
TEST(Kernels, RowsOfASoftmaxHaveTheSameBitsOnEverySet) {
  const std::int64_t vectors = 5;
  Matrix scores(1, vectors * 16, 1);
  for (float& x : scores.data) x *= 6.0f;
  for (const float bound : {0.0f, 4.0f}) {
    std::vector<float> first;
    for (const char* set : {"baseline", "avx512"}) {
      const Kernels* kernel = kernels(set);
      if (!kernel) continue;
      std::vector<float> row = scores.data;
      const ScoreRow score_row{row.data(), vectors, 0.5f, bound};
      const ExponentialSum sum = kernel->sum_exponentials(score_row, -1.0f);
      kernel->softmax_slopes(score_row, sum.largest, 2.0f, 0.25f);
      float total = 0.0f;
      for (std::int64_t j = 0; j < vectors * 16; ++j) {
        const float x = 0.5f * scores.data[j], within = bound > 0.0f ? std::clamp(x, -bound, bound) : x;
        const float share = std::exp(within - sum.largest);
        total += share;
        EXPECT_NEAR(row[j], within == x ? 2.0f * (share - 0.25f) : 0.0f, 1e-6f) << set;
      }
      EXPECT_NEAR(sum.total, total, 1e-4f * total) << set;
      EXPECT_NEAR(sum.of_before, std::exp(-1.0f - sum.largest), 1e-6f) << set;
      row.insert(row.end(), {sum.largest, sum.total, sum.of_before});
      if (first.empty()) first = row;
      EXPECT_EQ(row, first) << set;
    }
  }
}

}  // namespace
}  // namespace frugal
