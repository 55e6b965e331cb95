// Quotients that kernels take without a division, against the processor's: all that could be rounded wrongly.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <set>
#include <utility>

#include "emulated_cuda.h"
#include "base/device/quotients.cuh"
#include "step/cuda/normal_roots.cuh"

namespace frugal::cuda {
namespace {

constexpr std::uint32_t kOne = 1u << 23;  // digits of a float: [kOne, 2 kOne) are the numbers from 1 to 2

float number(std::uint64_t digits) { return static_cast<float>(digits) * 0x1p-23f; }
float next(float x, int steps) { return std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) + steps); }

// Calls body(a) for each a whose quotient a / b lies so near the middle between two floats that a correction could miss
// its side: a 2^e = (middle) b + rest with a rest of at most 8 units. What is rounded is off by less than 7 of them:
// the guess by 3/2 digits, its residual by half of one, the reciprocal by half of one.
template <typename Body>
void for_hard_quotients(std::uint32_t b, Body body) {
  const int zeros = std::countr_zero(b);
  const std::uint64_t odd = b >> zeros;
  if (odd == 1) return;
  for (const int power : {24, 25}) {  // a quotient above 1, or below
    std::uint64_t inverse = 1;        // of 2^(power - zeros), modulo odd
    for (int i = zeros; i < power; ++i) inverse = (inverse & 1 ? inverse + odd : inverse) / 2;
    const int most = 8 >> zeros > 1 ? 8 >> zeros : 1;
    for (int rest = -most; rest <= most; ++rest) {
      if (rest == 0) continue;
      std::uint64_t a = (rest + 8 * odd) % odd * inverse % odd;
      if (a < kOne) a += (kOne - a + odd - 1) / odd * odd;
      for (; a < 2 * kOne; a += odd)
        if ((power == 24) == (a >= b)) body(number(a));
    }
  }
}

TEST(EmulatedQuotients, OfOneDivisorAreRoundedCorrectly) {
  long wrong = 0, hard = 0;
  for (std::uint32_t digits = kOne + 1; digits < 2 * kOne; ++digits) {
    const Divisor by = make_divisor(number(digits));
    for_hard_quotients(digits, [&](float a) {
      float x[1] = {a};
      divide(x, by);
      wrong += x[0] != a / by.value;
      ++hard;
    });
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(hard, 100'000'000);
}

// From every approximation of a reciprocal root that is as good as a device's, which is off by 2^-22.9 at most. Where
// it gives the root's reciprocal, correctly rounded, the quotients are those of the test above; else all are tried.
TEST(EmulatedQuotients, ByRootsAreRoundedCorrectlyWhateverTheApproximation) {
  std::set<std::pair<float, float>> others;  // roots and approximations of those with another reciprocal
  std::set<std::pair<float, float>> reciprocals;
  for (std::uint32_t i = 0; i < 2 * kOne; ++i) {
    const float square = std::bit_cast<float>(std::bit_cast<std::uint32_t>(1.0f) + i), root = std::sqrt(square);
    const double exact = 1.0 / std::sqrt(static_cast<double>(square));
    for (int steps = -4; steps <= 4; ++steps) {
      const float approximate = next(static_cast<float>(exact), steps);
      if (std::abs(approximate / exact - 1.0) > 0x1p-22) continue;
      const float reciprocal = normal_reciprocal({root, approximate});
      if (reciprocal == 1.0f / root) continue;
      if (reciprocals.insert({root, reciprocal}).second) others.insert({root, approximate});
    }
  }
  long wrong = 0;
  for (const auto& [root, approximate] : others)
    for (std::uint32_t digits = kOne; digits < 2 * kOne; ++digits)
      wrong += normal_ratio(number(digits), {root, approximate}) != number(digits) / root;
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(others.size(), 0u);
}

}  // namespace
}  // namespace frugal::cuda
