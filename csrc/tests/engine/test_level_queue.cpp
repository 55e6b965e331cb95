#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "engine/p2f/level_queue.h"

namespace frugal {
namespace {

TEST(LevelQueue, TakesTheLevelThatIsDueFirstOldestFirst) {
  LevelQueue queue(8);
  queue.enqueue(0, kNever);
  queue.enqueue(1, 5);
  queue.enqueue(2, 3);
  queue.enqueue(3, 5);
  queue.move(0, 3);
  std::vector<std::int32_t> taken;
  EXPECT_EQ(queue.front(), 3);
  EXPECT_EQ(queue.take(3, 10, taken), 2u);
  EXPECT_EQ(queue.front(), 5);
  EXPECT_EQ(queue.take(5, 1, taken), 1u);
  EXPECT_EQ(queue.take(5, 10, taken), 1u);
  EXPECT_EQ(taken, (std::vector<std::int32_t>{2, 0, 1, 3}));
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(queue.front(), kNever);
}

TEST(LevelQueue, WhatIsOverdueIsFirst) {
  LevelQueue queue(4);
  queue.advance(100);
  queue.enqueue(0, 101);
  queue.enqueue(1, 7);
  EXPECT_EQ(queue.front(), 100);
}

// Against an ordered map, in a window that moves far beyond the ring.
TEST(LevelQueue, BehavesLikeAnOrderedMapForAnySpan) {
  for (const std::int64_t span : {1, 3, 12, 64, 65, 700}) {
    std::mt19937_64 random(static_cast<unsigned>(span));
    LevelQueue queue(span);
    std::map<std::int64_t, std::vector<std::int32_t>> expected;
    std::map<std::int32_t, std::int64_t> due;
    std::int64_t base = 0;
    const auto any_due = [&] {
      return random() % 4 == 0 ? kNever : base + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(span));
    };
    const auto forget = [&](std::int32_t item) {
      auto& level = expected[due[item]];
      std::erase(level, item);
      if (level.empty()) expected.erase(due[item]);
      due.erase(item);
    };
    for (int i = 0; i < 20000; ++i) {
      const auto item = static_cast<std::int32_t>(random() % 200);
      const std::int64_t step = any_due();
      switch (random() % 4) {
        case 0:
        case 1:
          if (due.count(item)) {
            forget(item);
            queue.move(item, step);
          } else {
            queue.enqueue(item, step);
          }
          due[item] = step;
          expected[step].push_back(item);
          break;
        case 2: {
          ASSERT_EQ(queue.front(), expected.empty() ? kNever : expected.begin()->first);
          if (expected.empty()) break;
          std::vector<std::int32_t> taken;
          const std::size_t limit = random() % 5 + 1;
          queue.take(queue.front(), limit, taken);
          const auto level = expected.begin()->second;
          ASSERT_EQ(taken, std::vector(level.begin(),
                                       level.begin() + static_cast<std::ptrdiff_t>(std::min(limit, level.size()))));
          for (const std::int32_t one : taken) forget(one);
          break;
        }
        default:
          if (due.count(item)) {
            queue.remove(item);
            forget(item);
          }
          if (expected.empty() || expected.begin()->first > base) queue.advance(++base);
      }
      ASSERT_EQ(queue.size(), due.size());
    }
    EXPECT_GT(base, 2 * span);
  }
}

}  // namespace
}  // namespace frugal
