#include "random/philox.h"

#include <gtest/gtest.h>

#include <vector>

namespace frugal {
namespace {

// Known answers of the reference implementation (Random123, kat_vectors).
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox(0, 0, 0), (PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox(~0ull, ~0ull, ~0ull), (PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox(0x299f31d0a4093822ull, 0x85a308d3243f6a88ull, 0x0370734413198a2eull),
            (PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, SeveralBlocksAreThoseOfTheirCounters) {
  for (const std::uint64_t first : {std::uint64_t{0}, (std::uint64_t{1} << 32) - 3, ~std::uint64_t{0} - 3}) {
    const auto blocks = philox_blocks<8>(0x299f31d0a4093822ull, first, 77);
    for (std::uint64_t i = 0; i < 8; ++i) EXPECT_EQ(blocks[i], philox(0x299f31d0a4093822ull, first + i, 77));
  }
}

TEST(CounterUniform, AnyPartOfAStreamCanBeMadeAlone) {
  const CounterUniform uniform(7, 3);
  std::vector<float> whole(1000), part(100);
  uniform.fill(whole.data(), 0, 1000, -2.0f, 2.0f);
  for (const int first : {0, 1, 2, 3, 517}) {
    uniform.fill(part.data(), first, 100, -2.0f, 2.0f);
    EXPECT_EQ(part, std::vector<float>(whole.begin() + first, whole.begin() + first + 100));
  }
  double mean = 0;
  for (const float x : whole) {
    EXPECT_GE(x, -2.0f);
    EXPECT_LT(x, 2.0f);
    mean += x / 1000;
  }
  EXPECT_NEAR(mean, 0, 0.15);
}

}  // namespace
}  // namespace frugal
