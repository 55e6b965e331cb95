#include "base/random/permutation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/random/stream.h"

namespace frugal {
namespace {

constexpr std::uint64_t kStream = random_stream(RandomUse::epoch_order, 0);

TEST(Permutation, VisitsEveryElementOnce) {
  for (const std::uint64_t size : {1ull, 2ull, 3ull, 4ull, 5ull, 127ull, 128ull, 1000ull, 65537ull, 400001ull}) {
    for (const std::uint64_t number : {0ull, 1ull, 5'000'000'000ull}) {
      const Permutation permutation(size, 11, kStream, number);
      std::vector<bool> seen(size);
      for (std::uint64_t position = 0; position < size; ++position) {
        const std::uint64_t element = permutation(position);
        ASSERT_LT(element, size);
        ASSERT_FALSE(seen[element]) << "size " << size << " element " << element << " twice";
        seen[element] = true;
      }
    }
  }
}

// Far beyond 32 bits nothing can be enumerated, but distinct positions must still give distinct elements in range.
TEST(Permutation, StaysInRangeAndDistinctBeyond32Bits) {
  for (const std::uint64_t size :
       {(1ull << 31) + 1, (1ull << 32) - 1, (1ull << 32) + 5, (1ull << 40) + 12345, 1ull << 62}) {
    const Permutation permutation(size, 5, kStream, 3);
    std::vector<std::uint64_t> elements;
    for (std::uint64_t i = 0; i < 50000; ++i) elements.push_back(permutation(i));                // from the front,
    for (std::uint64_t i = 1; i <= 50000; ++i) elements.push_back(permutation(size - i));        // the very end,
    for (std::uint64_t i = 0; i < 50000; ++i) elements.push_back(permutation(size / 2 + i));     // and the middle
    std::sort(elements.begin(), elements.end());
    EXPECT_LT(elements.back(), size);
    EXPECT_GT(elements.back(), size - size / 1000) << "never reaches the last elements";
    EXPECT_EQ(std::adjacent_find(elements.begin(), elements.end()), elements.end());
  }
}

TEST(Permutation, ARangeGivesTheElementsOfItsPositions) {
  for (const std::uint64_t size : {1ull, 5ull, 127ull, 1000ull, 400001ull, (1ull << 32) + 5, 1ull << 62}) {
    const Permutation permutation(size, 5, kStream, 3);
    for (const std::uint64_t count : {0ull, 1ull, 15ull, 16ull, 17ull, 1000ull}) {
      if (count > size) continue;
      for (const std::uint64_t first : {std::uint64_t{0}, (size - count) / 2, size - count}) {
        std::vector<std::int64_t> elements(count + 1, -1);
        permutation.range(first, static_cast<std::int64_t>(count), elements.data());
        for (std::uint64_t i = 0; i < count; ++i)
          ASSERT_EQ(elements[i], static_cast<std::int64_t>(permutation(first + i)));
        ASSERT_EQ(elements[count], -1) << "wrote past the end";
        std::vector<std::int64_t> applied = elements;  // any positions: the ones that the first pass gave
        permutation.apply(static_cast<std::int64_t>(count), applied.data());
        for (std::uint64_t i = 0; i < count; ++i)
          ASSERT_EQ(applied[i], static_cast<std::int64_t>(permutation(static_cast<std::uint64_t>(elements[i]))));
        ASSERT_EQ(applied[count], -1) << "wrote past the end";
      }
    }
  }
}

// Where a fixed position lands, over many keys, must be uniform; and so must be the distance of two neighbours.
TEST(Permutation, PlacesUniformlyOverKeys) {
  constexpr int kKeys = 50'000;
  for (const std::uint64_t size : {5ull, 12ull, 100ull}) {
    std::vector<int> place(size), distance(size);
    for (int key = 0; key < kKeys; ++key) {
      const Permutation permutation(size, 1234, kStream, key);
      const std::uint64_t a = permutation(1), b = permutation(2);
      ++place[a];
      ++distance[(b + size - a) % size];
    }
    const auto chi_square = [](const std::vector<int>& counts, std::size_t first, double expected) {
      double sum = 0;
      for (std::size_t i = first; i < counts.size(); ++i)
        sum += (counts[i] - expected) * (counts[i] - expected) / expected;
      return sum;
    };
    // Mean of chi-square = degrees of freedom, deviation = sqrt(2 * them); four deviations.
    const double freedom = static_cast<double>(size) - 1;
    EXPECT_LT(chi_square(place, 0, kKeys / (freedom + 1)), freedom + 4 * std::sqrt(2 * freedom)) << "size " << size;
    EXPECT_EQ(distance[0], 0);
    EXPECT_LT(chi_square(distance, 1, kKeys / freedom), freedom + 4 * std::sqrt(2 * freedom)) << "size " << size;
  }
}

// Within one permutation: consecutive positions must not be correlated (serial pairs on a 20 x 20 grid).
TEST(Permutation, NeighboursAreIndependent) {
  constexpr std::uint64_t kSize = 1'000'003, kCells = 20;
  const Permutation permutation(kSize, 99, kStream, 0);
  std::vector<double> counts(kCells * kCells);
  std::uint64_t previous = permutation(0);
  for (std::uint64_t i = 1; i < kSize; ++i) {
    const std::uint64_t element = permutation(i);
    ++counts[previous * kCells / kSize * kCells + element * kCells / kSize];
    previous = element;
  }
  const double expected = static_cast<double>(kSize - 1) / (kCells * kCells);
  double chi_square = 0;
  for (const double count : counts) chi_square += (count - expected) * (count - expected) / expected;
  EXPECT_LT(chi_square, 399 + 4 * std::sqrt(2.0 * 399));
}

TEST(Permutation, AnotherKeyGivesAnotherOrder) {
  const auto same_places = [](const Permutation& a, const Permutation& b) {
    int same = 0;
    for (std::uint64_t i = 0; i < a.size(); ++i) same += a(i) == b(i);
    return same;
  };
  const Permutation base(10000, 1, kStream, 0);
  EXPECT_EQ(same_places(base, Permutation(10000, 1, kStream, 0)), 10000);
  EXPECT_LT(same_places(base, Permutation(10000, 2, kStream, 0)), 12);  // about one by chance
  EXPECT_LT(same_places(base, Permutation(10000, 1, kStream + 1, 0)), 12);
  EXPECT_LT(same_places(base, Permutation(10000, 1, kStream, 1)), 12);
}

}  // namespace
}  // namespace frugal
