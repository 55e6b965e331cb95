#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <unordered_map>

#include "engine/numbered_rows.h"
#include "engine/planner.h"
#include "engine/row_cells.h"
#include "engine/row_map.h"

namespace frugal {
namespace {

TEST(RowMap, BehavesLikeAnUnorderedMapWhileItGrowsAndShrinks) {
  std::mt19937_64 random(1);
  for (const std::int64_t rows : {std::int64_t{10}, std::int64_t{1000}, std::int64_t{1000000000000}}) {
    RowMap<std::int64_t> map;
    std::unordered_map<std::int64_t, std::int64_t> expected;
    for (std::int64_t i = 0; i < 50000; ++i) {
      const auto row = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(rows));
      if (random() % 2) {
        map[row] = i;
        expected[row] = i;
      } else {
        ASSERT_EQ(map.erase(row), expected.erase(row) == 1);
      }
      const auto other = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(rows));
      const auto found = expected.find(other);
      const std::int64_t* value = map.find(other);
      ASSERT_EQ(value != nullptr, found != expected.end());
      if (value != nullptr) {
        ASSERT_EQ(*value, found->second);
      }
      ASSERT_EQ(map.size(), expected.size());
    }
  }
}

TEST(RowMap, MovesIntoHugePagesWithItsRows) {
  constexpr std::int64_t kRows = 200'000;
  RowMap<std::int64_t> map;
  for (std::int64_t row = 0; row < kRows; ++row) map[row * 31] = row;
  ASSERT_GT(map.bytes(), std::size_t{2} << 20);
  for (std::int64_t row = 0; row < kRows; ++row) ASSERT_EQ(*map.find(row * 31), row);
}

TEST(NumberedRows, KnowWhichRowsTheyHaveAndCountThemInAscendingOrder) {
  std::mt19937_64 random(2);
  for (const std::int64_t rows : {1, 64, 130, 384, 385, 5000})
    for (const unsigned one_of : {1u, 3u, 200u}) {
      std::vector<std::int64_t> ids;
      for (std::int64_t row = 0; row < rows; ++row)
        if (random() % one_of == 0) ids.push_back(row);
      const std::vector<std::int64_t> ascending = ids;
      std::ranges::shuffle(ids, random);
      const NumberedRows set(ids);
      std::int32_t number = 0;
      for (std::int64_t row = 0; row < rows + 500; ++row) {
        const bool in = std::ranges::binary_search(ascending, row);
        ASSERT_EQ(set.has(row), in) << row;
        if (!in) continue;
        ASSERT_EQ(set.number_of(row), number++);
      }
    }
}

TEST(RowCells, KnowPlacesOfRowsAndCountsOfEachRank) {
  constexpr std::int64_t kRows = 40;
  constexpr int kRanks = 2;
  std::mt19937_64 random(1);
  RowCells cells(kRows, kRanks);
  std::vector<std::int32_t> count(kRows * kRanks), place(kRows, kFromHost);
  for (int use = 0; use < 5000; ++use) {
    const auto row = static_cast<std::int64_t>(random() % kRows);
    const auto rank = static_cast<int>(random() % kRanks);
    ASSERT_EQ(cells.count_use(row, rank), ++count[static_cast<std::size_t>(row * kRanks + rank)]);
    ASSERT_EQ(cells.place(row), place[static_cast<std::size_t>(row)]);
    cells.place(row) = place[static_cast<std::size_t>(row)] = use;
  }
}

TEST(RowCells, CountsStopAtTheirLimit) {
  RowCells cells(1, 1);
  for (int use = 0; use < 70000; ++use) cells.count_use(0, 0);
  EXPECT_EQ(cells.count_use(0, 0), 65535);
}

TEST(RowMap, WorkersGetEqualSharesOfConsecutiveRows) {
  for (const int workers : {1, 2, 3, 8, 16}) {
    std::vector<int> count(static_cast<std::size_t>(workers));
    for (std::int64_t row = 0; row < 160000; ++row) ++count[static_cast<std::size_t>(worker_of(row, workers))];
    for (const int n : count) EXPECT_NEAR(n, 160000 / workers, 160000 / workers / 20);
  }
}

}  // namespace
}  // namespace frugal
