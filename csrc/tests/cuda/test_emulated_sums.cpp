// The sums of a row's gradients, run on a CPU, against the CPU's own.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <complex>
#include <random>
#include <utility>
#include <vector>

#include "models/cpu/complex_product.h"
#include "rows/cpu/segment_sums.h"
#include "models/cuda/complex_product.h"
#include "rows/cuda/segment_sums.h"

namespace frugal::emulated_sums {
namespace {

// Rows without occurrences, with a few, and with more than a warp walks over or a block loads at a time; dims beyond
// which blocks share a row, by few rows and by many.
TEST(EmulatedSums, AreTheCpus) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  const std::pair<std::int64_t, std::int64_t> cases[] = {{1, 1},    {3, 700},  {9, 130},
                                                         {40, 300}, {600, 33}, {17000, 130}};
  for (const auto& [rows, dim] : cases) {
    std::vector<std::int32_t> offset{0};
    for (std::int64_t u = 0; u < rows; ++u) {
      const auto count = u % 20 == 0 && u < 60 ? 1000 : u % 20 == 1 && u < 60 ? 40 : random() % 4;
      offset.push_back(offset.back() + static_cast<std::int32_t>(count));
    }
    std::vector<std::int32_t> order(offset.back());
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    std::vector<float> values(order.size() * dim), sums(rows * dim, 7.0f), expected = sums;
    for (float& value : values) value = normal(random);
    EntryGradients segments{values.data(), dim, offset.data(), nullptr};
    cuda::segment_sums(segments, rows, dim, sums.data(), {});
    cpu::segment_sums(segments, rows, dim, expected.data());
    EXPECT_EQ(sums, expected) << rows << " rows of " << dim << " as they lie";
    segments.order = order.data();
    cuda::segment_sums(segments, rows, dim, sums.data(), {});
    cpu::segment_sums(segments, rows, dim, expected.data());
    EXPECT_EQ(sums, expected) << rows << " rows of " << dim;
    cuda::segment_sums(segments, rows, dim, sums.data(), {}, true);  // to what is there
    cpu::segment_sums(segments, rows, dim, expected.data(), true);
    EXPECT_EQ(sums, expected) << rows << " rows of " << dim;
    for (std::int64_t u = 0; u < std::min<std::int64_t>(rows, 10); ++u) {
      float sum = 0.0f;
      for (std::int64_t i = offset[u]; i < offset[u + 1]; ++i) sum += values[order[i] * dim];
      for (std::int64_t i = offset[u]; i < offset[u + 1]; ++i) sum += values[order[i] * dim];
      EXPECT_EQ(sums[u * dim], sum);
    }
  }
}

// Rows of one number to more than a block's threads, rows that lie apart, and both factors as they are.
TEST(EmulatedSums, ProductsOfComplexRowsAreTheCpus) {
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  for (const std::int64_t numbers : {1, 37, 700})
    for (const bool conjugate : {false, true}) {
      const std::int64_t rows = 70, stride = 2 * numbers + 3;
      std::vector<float> x(rows * stride), y(rows * stride), out(rows * stride, 7.0f), expected = out;
      for (std::int64_t i = 0; i < rows * stride; ++i) x[i] = normal(random), y[i] = normal(random);
      ComplexProduct product{x.data(), y.data(), out.data(), stride, stride, stride, rows, numbers, conjugate};
      cuda::multiply_complex(product, {});
      product.out = expected.data();
      cpu::multiply_complex(product);
      EXPECT_EQ(out, expected);
      for (std::int64_t i = 0; i < rows; ++i)
        for (std::int64_t k = 0; k < numbers; ++k) {
          const std::complex<double> a(x[i * stride + k], x[i * stride + numbers + k]);
          const std::complex<double> b(y[i * stride + k], y[i * stride + numbers + k]);
          const std::complex<double> wanted = (conjugate ? std::conj(a) : a) * b;
          ASSERT_NEAR(out[i * stride + k], wanted.real(), 1e-6 * (1 + std::abs(a) * std::abs(b)));
          ASSERT_NEAR(out[i * stride + numbers + k], wanted.imag(), 1e-6 * (1 + std::abs(a) * std::abs(b)));
        }
    }
}

}  // namespace
}  // namespace frugal::emulated_sums
