// Half precision against arithmetic in double: what they hold, to which neighbour they round, and how often.
#include "base/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "table/half_rows.h"

namespace frugal {
namespace {

constexpr int kExponentBits = 5, kMantissaBits = 10, kBias = (1 << (kExponentBits - 1)) - 1;

double value_of(std::uint32_t half) {
  const int exponent = static_cast<int>(half >> kMantissaBits) & ((1 << kExponentBits) - 1);
  const double mantissa = static_cast<double>(half & ((1u << kMantissaBits) - 1)) / (1 << kMantissaBits);
  const double sign = half & 0x8000u ? -1 : 1;
  if (exponent == (1 << kExponentBits) - 1)
    return mantissa == 0 ? sign * std::numeric_limits<double>::infinity() : std::nan("");
  return sign * (exponent == 0 ? std::ldexp(mantissa, 1 - kBias) : std::ldexp(1 + mantissa, exponent - kBias));
}

// The largest half not above |x|; numbers of one sign are ordered as their bits are.
std::uint32_t half_below(double size) {
  std::uint32_t low = 0, high = (1u << 15) - (1u << kMantissaBits);  // infinity
  while (high - low > 1) {
    const std::uint32_t middle = (low + high) / 2;
    (value_of(middle) <= size ? low : high) = middle;
  }
  return low;
}

TEST(Half, EveryHalfIsReadExactly) {
  for (std::uint32_t half = 0; half < 1u << 16; ++half) {
    const float found = Half::expand(static_cast<std::uint16_t>(half));
    const double wanted = value_of(half);
    if (std::isnan(wanted))
      ASSERT_TRUE(std::isnan(found)) << half;
    else
      ASSERT_TRUE(found == wanted && std::signbit(found) == std::signbit(wanted)) << half;
  }
}

TEST(Half, WhatAHalfHoldsStaysAsItIs) {
  for (std::uint32_t half = 0; half < 1u << 16; ++half) {
    const float x = Half::expand(static_cast<std::uint16_t>(half));
    if (std::isnan(x)) continue;
    for (const std::uint32_t noise : {0u, 1u, 0x8000u, 0xffffu}) ASSERT_EQ(Half::round(x, noise), half);
    ASSERT_EQ(Half::round_to_nearest(x), half);
  }
}

// Numbers of all sizes: ordinary ones, subnormal float16, subnormal floats, and more than a half can be.
std::vector<float> numbers() {
  std::mt19937 random(3);
  std::vector<float> found{0.0f, -0.0f, 1e-45f, 65504.0f, 65519.0f, 65520.0f, 1e30f, 3.4e38f, 6.1e-5f, 6.0e-5f, 3e-8f};
  for (int i = 0; i < 300; ++i)
    found.push_back(std::ldexp(static_cast<float>(random() % 100003) / 50001.5f - 1,
                               static_cast<int>(random() % 44) - 28));
  return found;
}

TEST(Half, NeighboursComeAsOftenAsTheirDistanceSays) {
  for (const float x : numbers()) {
    const double size = std::fabs(static_cast<double>(x));
    const std::uint32_t low = half_below(size), sign = std::signbit(x) ? 0x8000u : 0;
    const bool largest = std::isinf(value_of(low + 1));
    const double share = largest ? 0 : (size - value_of(low)) / (value_of(low + 1) - value_of(low));
    int up = 0;
    for (std::uint32_t noise = 0; noise < 1u << 16; ++noise) {
      const std::uint32_t half = Half::round(x, noise);
      ASSERT_TRUE(half == (low | sign) || half == ((low + 1) | sign)) << x;
      up += half != (low | sign);
    }
    if (size < std::ldexp(1, -14)) {
      EXPECT_NEAR(up, share * 65536, 1) << x;
    } else {
      EXPECT_EQ(up, share * 65536) << x;
    }
  }
}

TEST(Half, RoundsToNearestTiesToEven) {
  for (const float x : numbers()) {
    const double size = std::fabs(static_cast<double>(x));
    const std::uint32_t low = half_below(size), sign = std::signbit(x) ? 0x8000u : 0;
    std::uint32_t wanted = low;
    if (!std::isinf(value_of(low + 1))) {
      const double down = size - value_of(low), up = value_of(low + 1) - size;
      wanted = down < up || (down == up && low % 2 == 0) ? low : low + 1;
    }
    EXPECT_EQ(Half::round_to_nearest(x), wanted | sign) << x;
  }
}

TEST(Half, InfinitiesAndNanStay) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(Half::expand(Half::round(-infinity, 77)), -infinity);
  EXPECT_EQ(Half::expand(Half::round_to_nearest(infinity)), infinity);
  EXPECT_TRUE(std::isnan(Half::expand(Half::round(std::nanf(""), 0xffff))));
  EXPECT_TRUE(std::isnan(Half::expand(Half::round_to_nearest(std::nanf("")))));
}

// The vectors' way of making noise and half precision against one column at a time.
TEST(HalfRows, HaveTheNoiseOfTheirColumns) {
  std::mt19937 random(5);
  for (const std::int32_t dim : {1, 2, 31, 33, 255, 256, 257, 400, 1000}) {
    const RowLayout layout = RowLayout::for_dim(dim, 1, RowElement::kFloat16);
    EXPECT_EQ(layout.state_offset(), (dim + 1) / 2);
    std::vector<float> values(dim + 1), record(layout.stride), back(dim + 1);
    for (float& value : values) value = static_cast<float>(random() % 2001) / 10007.0f - 0.1f;
    const RoundingNoise noise = Rounding{0x123456789abcdefull, 2}.of(77, 86'000'000);
    // Whole rows, neighbours from some column on, and some of each half of a row.
    for (const WholeColumns& columns : {WholeColumns{}, WholeColumns{133}, WholeColumns{256 + 31},
                                        WholeColumns{50, dim / 2, 1200}, WholeColumns{255, (dim + 1) / 2, 511}}) {
      round_record(layout, values.data(), record.data(), noise, columns);
      expand_record(layout, record.data(), back.data());
      EXPECT_EQ(back[dim], values[dim]);  // the state
      for (std::int32_t i = 0; i < dim; ++i) {
        const std::uint32_t whole = i < columns.turn ? columns.first + i : columns.second + i - columns.turn;
        ASSERT_EQ(back[i], Half::expand(Half::round(values[i], noise.at(whole))))
            << dim << " " << i << " " << columns.first;
      }
    }
  }
}

}  // namespace
}  // namespace frugal
