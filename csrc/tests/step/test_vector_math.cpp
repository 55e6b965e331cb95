// The vectors that every kernel is written in, on the baseline instruction set.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "base/linalg/vector_math.h"

namespace frugal {
namespace {

using namespace FRUGAL_ISA;

// Largest distance to the exact value in units of the last place of a float, over x in [low, high].
template <typename Function, typename Exact>
double worst_error(float low, float high, Function function, Exact exact) {
  double worst = 0.0;
  constexpr int kPoints = 1 << 20;
  float x[kLanes], y[kLanes];
  for (int i = 0; i < kPoints; i += kLanes) {
    for (int l = 0; l < kLanes; ++l) x[l] = low + (high - low) * static_cast<float>(i + l) / (kPoints - 1);
    store(y, function(load(x)));
    for (int l = 0; l < kLanes; ++l) {
      const double truth = exact(static_cast<double>(x[l]));
      const double unit =
          std::nextafter(std::fabs(static_cast<float>(truth)), INFINITY) - std::fabs(static_cast<float>(truth));
      worst = std::max(worst, std::fabs(y[l] - truth) / unit);
    }
  }
  return worst;
}

float first(Vec x) {
  float lanes[kLanes];
  store(lanes, x);
  return lanes[0];
}

TEST(VectorMath, ExpIsWithinTwoUnits) {
  EXPECT_LT(worst_error(
                -86.0f, 0.0f, [](Vec x) { return exp(x); }, [](double x) { return std::exp(x); }),
            2.0);
  EXPECT_EQ(first(exp(broadcast(0.0f))), 1.0f);
  EXPECT_EQ(first(exp(broadcast(-1e30f))), 0.0f);
  EXPECT_EQ(first(exp(broadcast(-std::numeric_limits<float>::infinity()))), 0.0f);
  EXPECT_TRUE(std::isnan(first(exp(broadcast(std::numeric_limits<float>::quiet_NaN())))));
}

TEST(VectorMath, Log1pIsWithinTwoUnitsAlsoNearZero) {
  EXPECT_LT(worst_error(
                0.0f, 1.0f, [](Vec x) { return log1p_unit(x); }, [](double x) { return std::log1p(x); }),
            2.0);
  EXPECT_LT(worst_error(
                1e-12f, 1e-6f, [](Vec x) { return log1p_unit(x); }, [](double x) { return std::log1p(x); }),
            2.0);
  EXPECT_EQ(first(log1p_unit(broadcast(0.0f))), 0.0f);
}

// Near its zeros a sine of float32 has only the absolute precision of its argument.
TEST(VectorMath, SineAndCosineAreAccurateOverManyTurns) {
  float x[kLanes], sine[kLanes], cosine[kLanes];
  for (int i = -40000; i < 40000; ++i) {
    for (int l = 0; l < kLanes; ++l) x[l] = 0.01f * i + 0.0007f * l;
    const SineCosine result = sine_cosine(load(x));
    store(sine, result.sine);
    store(cosine, result.cosine);
    for (int l = 0; l < kLanes; ++l) {
      ASSERT_NEAR(sine[l], std::sin(static_cast<double>(x[l])), 2e-7) << x[l];
      ASSERT_NEAR(cosine[l], std::cos(static_cast<double>(x[l])), 2e-7) << x[l];
    }
  }
}

TEST(Vectors, SignAndParts) {
  float x[kLanes] = {-2.0f, -0.0f, 0.0f, 3.0f, -INFINITY, INFINITY, 1.0f, -1e-30f}, y[kLanes];
  store(y, sign(load(x)));
  const std::vector<float> expected = {-1.0f, 0.0f, 0.0f, 1.0f, -1.0f, 1.0f, 1.0f, -1.0f};
  for (std::size_t l = 0; l < expected.size(); ++l) EXPECT_EQ(y[l], expected[l]) << "of " << x[l];
  for (int count = 0; count <= kLanes; ++count) {
    float out[kLanes + 1];
    std::fill(out, out + kLanes + 1, 7.0f);
    store_part(out, broadcast(1.0f), count);
    for (int l = 0; l <= kLanes; ++l) EXPECT_EQ(out[l], l < count ? 1.0f : 7.0f);
    std::fill(out, out + kLanes, 5.0f);
    EXPECT_EQ(fold_sum(load_part(out, count)), 5.0f * count);
  }
}

}  // namespace
}  // namespace frugal
