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

TEST(RowMap, ReservedRoomDoesNotGrow) {
  RowMap<std::int32_t> map(1000);
  const std::size_t bytes = map.bytes();
  for (std::int64_t row = 0; row < 1000; ++row) map[row * 977] = 1;
  EXPECT_EQ(map.bytes(), bytes);
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

// Steps that use rows at random, seen up to 15 ahead: against a list of all uses, over many rounds of the bits.
TEST(RowCells, KnowPlacesCountsAndNextUsesOfEachRowAndRank) {
  constexpr std::int64_t kRows = 40, kSteps = 400;
  constexpr int kRanks = 2;
  for (const std::int64_t horizon : {1, 4, RowUses::kSteps - 1}) {
    std::mt19937_64 random(static_cast<std::uint64_t>(horizon));
    RowCells cells(kRows, kRanks);
    std::vector<std::int64_t> seen(kRanks), count(kRows * kRanks);
    std::vector<bool> used(static_cast<std::size_t>(kSteps * kRows * kRanks));
    for (std::size_t i = 0; i < used.size(); ++i) used[i] = random() % 12 == 0;
    const auto uses = [&](std::int64_t step, std::int64_t row, int rank) {
      return step < kSteps && used[static_cast<std::size_t>((step * kRows + row) * kRanks + rank)];
    };
    for (std::int64_t step = 0; step < kSteps; ++step)
      for (int rank = 0; rank < kRanks; ++rank) {
        auto& known = seen[static_cast<std::size_t>(rank)];
        for (known = std::max(known, step + 1); known <= step + horizon; ++known)
          for (std::int64_t row = 0; row < kRows; ++row)
            if (uses(known, row, rank)) {
              RowUses of_row = cells.uses(row, rank);
              of_row.see(known);
              cells.set_uses(row, rank, of_row);
            }
        for (std::int64_t row = 0; row < kRows; ++row) {
          if (!uses(step, row, rank)) continue;
          std::int64_t next = 0;
          for (std::int64_t ahead = horizon; ahead > 0; --ahead)
            if (uses(step + ahead, row, rank)) next = ahead;
          RowUses of_row = cells.uses(row, rank);
          ASSERT_EQ(of_row.plan(step), next);
          ASSERT_EQ(of_row.count, ++count[static_cast<std::size_t>(row * kRanks + rank)]);
          cells.set_uses(row, rank, of_row);
          const auto first = static_cast<std::size_t>(row * kRanks);
          const std::int64_t places = count[first] + count[first + 1];
          ASSERT_EQ(cells.place(row), places == 1 ? kFromHost : places - 1);
          cells.place(row) = static_cast<std::int32_t>(places);
        }
      }
  }
}

TEST(RowCells, CountsStopAtTheirLimit) {
  RowUses uses;
  for (std::int64_t step = 0; step < 70000; ++step) uses.plan(step);
  EXPECT_EQ(uses.count, 65535);
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
