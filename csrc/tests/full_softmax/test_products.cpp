// Products against sums that are written out, to the bit.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <tuple>
#include <vector>

#include "base/parallel/thread_pool.h"
#include "full_softmax/cpu/products.h"

namespace frugal {
namespace {

constexpr float kUntouched = 7.0f;

// A row-major matrix with room for whole vectors, whose padding is no number.
struct Matrix {
  std::int64_t rows, columns, stride;
  std::vector<float> data;

  Matrix(std::int64_t rows_of, std::int64_t columns_of, float padding)
      : rows(rows_of), columns(columns_of), stride((columns + 15) / 16 * 16), data(rows * stride, padding) {}
  static Matrix random(std::int64_t rows, std::int64_t columns, std::uint32_t seed) {
    Matrix made(rows, columns, NAN);
    std::mt19937 draw(seed);
    std::normal_distribution<float> normal;
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < columns; ++j) made.at(i, j) = normal(draw);
    return made;
  }
  float& at(std::int64_t i, std::int64_t j) { return data[i * stride + j]; }
  Rows pointers() { return {data.data(), stride}; }
  Matrix transposed() {
    Matrix turned(columns, rows, NAN);
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < columns; ++j) turned.at(j, i) = at(i, j);
    return turned;
  }
};

// Element (i, j) of a b, as it is reported to be: one sum in the order of its depth, which begins with `before`.
void expect_product(Matrix& found, Matrix& a, Matrix& b, float before = 0.0f) {
  for (std::int64_t i = 0; i < found.rows; ++i)
    for (std::int64_t j = 0; j < found.columns; ++j) {
      float sum = before;
      for (std::int64_t p = 0; p < a.columns; ++p) sum = std::fma(a.at(i, p), b.at(p, j), sum);
      ASSERT_EQ(found.at(i, j), sum) << "row " << i << ", column " << j;
    }
}

// (m, n, k), threads. Around the sizes of tiles (12 x 32), pieces (48 x 256) and parts (1024 deep).
using Case = std::tuple<std::tuple<int, int, int>, int>;

class Products : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    std::tie(m_, n_, k_) = std::get<0>(GetParam());
    set_num_threads(std::get<1>(GetParam()));
  }
  void TearDown() override { set_num_threads(1); }
  int m_ = 0, n_ = 0, k_ = 0;
};

TEST_P(Products, OfRowsAndRowsAreSumsInOrder) {
  Matrix a = Matrix::random(m_, k_, 1), b = Matrix::random(n_, k_, 2), c(m_, n_, kUntouched);
  cpu::multiply_transposed(m_, n_, k_, a.pointers(), b.pointers(), c.pointers());
  Matrix turned = b.transposed();
  expect_product(c, a, turned);
}

TEST_P(Products, OfRowsAndColumnsAreSumsInOrder) {
  Matrix a = Matrix::random(m_, k_, 3), b = Matrix::random(k_, n_, 4), c(m_, n_, kUntouched);
  cpu::multiply(m_, n_, k_, {a.data.data(), a.stride, 1}, b.pointers(), c.pointers());
  expect_product(c, a, b);
}

TEST_P(Products, ThatAreAddedGoOnInOrder) {
  Matrix a = Matrix::random(m_, k_, 3), b = Matrix::random(k_, n_, 4), c(m_, n_, kUntouched);
  cpu::multiply(m_, n_, k_, {a.data.data(), a.stride, 1}, b.pointers(), c.pointers(), true);
  expect_product(c, a, b, kUntouched);
}

TEST_P(Products, OfColumnsAndColumnsAreSumsInOrder) {
  Matrix a = Matrix::random(k_, m_, 5), b = Matrix::random(k_, n_, 6), c(m_, n_, kUntouched);
  cpu::multiply(m_, n_, k_, {a.data.data(), 1, a.stride}, b.pointers(), c.pointers());
  Matrix turned = a.transposed();
  expect_product(c, turned, b);
}

TEST_P(Products, OfEverySecondNumberAreSumsInOrder) {
  Matrix both = Matrix::random(m_, 2 * k_, 7), b = Matrix::random(k_, n_, 8), c(m_, n_, kUntouched), a(m_, k_, NAN);
  for (int i = 0; i < m_; ++i)
    for (int p = 0; p < k_; ++p) a.at(i, p) = both.at(i, 2 * p);
  cpu::multiply(m_, n_, k_, {both.data.data(), both.stride, 2}, b.pointers(), c.pointers());
  expect_product(c, a, b);
}

INSTANTIATE_TEST_SUITE_P(Sizes, Products,
                         testing::Combine(testing::Values(std::tuple(1, 1, 1), std::tuple(12, 32, 256),
                                                          std::tuple(13, 33, 257), std::tuple(250, 47, 300),
                                                          std::tuple(25, 530, 31), std::tuple(49, 5, 2100)),
                                          testing::Values(1, 3)));

TEST(Products, WithoutDepthAreZero) {
  Matrix a(3, 16, NAN), b(5, 16, NAN), c(3, 5, kUntouched);
  cpu::multiply_transposed(3, 5, 0, a.pointers(), b.pointers(), c.pointers());
  for (std::int64_t i = 0; i < 3; ++i)
    for (std::int64_t j = 0; j < 5; ++j) EXPECT_EQ(c.at(i, j), 0.0f);
}

TEST(Products, OfNothingTouchNothing) {
  Matrix a(3, 4, NAN), c(3, 5, kUntouched);
  cpu::multiply_transposed(0, 5, 4, a.pointers(), a.pointers(), c.pointers());
  cpu::multiply_transposed(3, 0, 4, a.pointers(), a.pointers(), c.pointers());
  for (const float x : c.data) EXPECT_EQ(x, kUntouched);
}

}  // namespace
}  // namespace frugal
