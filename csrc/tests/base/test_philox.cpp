#include "base/random/philox.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <vector>

#include "base/random/start_numbers.h"

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

// Numbers of `count` from `first` on, whatever they are made with.
template <class Numbers>
std::vector<float> numbers_of(const Numbers& numbers, std::uint64_t first, std::int64_t count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  numbers.fill(values.data(), first, count);
  return values;
}

template <class Numbers>
void expect_any_part_alone(const Numbers& numbers) {
  const std::vector<float> whole = numbers_of(numbers, 0, 1000);
  for (const int first : {0, 1, 2, 3, 63, 517})
    for (const int count : {1, 3, 61, 64, 65, 200})
      EXPECT_EQ(numbers_of(numbers, first, count),
                std::vector<float>(whole.begin() + first, whole.begin() + first + count));
}

TEST(StartNumbers, AnyPartOfAStreamCanBeMadeAlone) {
  expect_any_part_alone(CounterUniform(7, 3, -2.0f, 2.0f));
  expect_any_part_alone(CounterNormal(7, 3, 0.5, 2.0));
}

TEST(StartNumbers, UniformNumbersAreThoseOfTheirWords) {
  const std::vector<float> values = numbers_of(CounterUniform(7, 3, -2.0f, 3.0f), 0, 400);
  for (std::size_t i = 0; i < values.size(); ++i)
    EXPECT_EQ(values[i], -2.0f + 5.0f * (static_cast<float>(philox(7, i / 4, 3)[i % 4] >> 8) * 0x1p-24f));
}

TEST(StartNumbers, NormalNumbersAreThoseOfTheMathematicalLibrary) {
  const std::vector<float> values = numbers_of(CounterNormal(11, 2, 0.25, 1e-3), 0, 1 << 20);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const PhiloxBlock block = philox(11, i / 4, 2);
    const std::size_t pair = i % 4 / 2 * 2;
    const double radius = 1e-3 * std::sqrt(-2 * std::log((block[pair] + 1.0) * 0x1p-32));
    const double angle = 2 * std::numbers::pi * (block[pair + 1] * 0x1p-32);
    ASSERT_EQ(values[i], static_cast<float>(0.25 + radius * (i % 2 ? std::sin(angle) : std::cos(angle)))) << i;
  }
}

}  // namespace
}  // namespace frugal
