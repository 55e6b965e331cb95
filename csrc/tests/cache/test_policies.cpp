// The engine's contract for cache policies (engine/cache_policy.h), held against each of them; and what next use is
// for.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include "cache/clock_policy.h"
#include "cache/frequency_sketch.h"
#include "cache/named_policy.h"
#include "cache/replay.h"
#include "cache/scored_policy.h"
#include "cache/scored_sets.h"

namespace frugal {
namespace {

constexpr const char* kNames[] = {"lru", "lfu", "epoch_lru", "epoch_lfu", "next_use"};

struct Trace {
  std::vector<std::int64_t> offsets{0}, rows;
};

// Half the rows of a step are skewed to the low ids, half are uniform.
Trace random_trace(std::int64_t row_count, int steps, int size, int seed) {
  std::mt19937 random(seed);
  Trace trace;
  for (int s = 0; s < steps; ++s) {
    std::set<std::int64_t> rows;
    for (int i = 0; i < size; ++i) {
      const double u = std::uniform_real_distribution<>(0, 1)(random);
      rows.insert(static_cast<std::int64_t>(row_count * (i % 2 ? u : u * u * u)));
    }
    trace.rows.insert(trace.rows.end(), rows.begin(), rows.end());
    trace.offsets.push_back(static_cast<std::int64_t>(trace.rows.size()));
  }
  return trace;
}

class PolicyTest : public testing::TestWithParam<const char*> {};

TEST_P(PolicyTest, KeepsTheEnginesContract) {
  constexpr std::int64_t kRows = 400;
  for (const std::int64_t slots : {1, 31, 32, 33, 100, 400, 500}) {
    const auto made = std::string(GetParam()) == "epoch_lfu"  // with epochs short enough to come and go
                          ? std::make_shared<ScoredPolicy>(kRows, slots, Eviction::kEpochLfu, 20)
                          : make_named_policy(GetParam(), kRows, slots);
    CachePolicy& policy = *made;
    ASSERT_EQ(policy.slots(), std::min(slots, kRows));
    std::map<std::int64_t, std::int32_t> directory;  // row -> slot
    std::map<std::int32_t, std::int64_t> held;       // slot -> row
    std::map<std::int64_t, std::int64_t> used;       // row -> last step
    const Trace trace = random_trace(kRows, 200, 60, static_cast<int>(slots));
    std::mt19937 random(7);
    for (std::int64_t step = 0; step < 200; ++step) {
      const auto next = [&](std::int64_t row) { return row % 3 ? kNever : step + 1 + row % 5; };
      std::vector<std::int64_t> misses;
      for (auto i = trace.offsets[step]; i < trace.offsets[step + 1]; ++i) {
        const std::int64_t row = trace.rows[i];
        const auto place = directory.find(row);
        if (place == directory.end()) {
          misses.push_back(row);
        } else if (random() % 10 == 0) {  // another rank reads it
          policy.release(row, place->second);
          held.erase(place->second);
          directory.erase(place);
        } else {
          policy.touch(row, place->second, step, next(row));
          used[row] = step;
        }
      }
      for (const std::int64_t row : misses) {
        const Admission admission = policy.admit(row, step, next(row));
        if (!admission.accepted()) {
          ASSERT_EQ(admission.evicted_row, -1);
          continue;
        }
        ASSERT_LT(admission.slot, policy.slots());
        const auto before = held.find(admission.slot);
        ASSERT_EQ(admission.evicted_row, before == held.end() ? -1 : before->second);
        if (before != held.end()) {
          ASSERT_LT(used[before->second], step) << "a row of this very step was evicted";
          directory.erase(before->second);
        }
        directory[row] = admission.slot;
        held[admission.slot] = row;
        used[row] = step;
      }
      ASSERT_EQ(directory.size(), held.size());
    }
    if (slots >= kRows) {
      EXPECT_GT(directory.size(), 300u) << "a cache of the whole table has no reason to evict";
    }
  }
}

TEST_P(PolicyTest, ACacheOfTheWholeTableNeverEvicts) {
  const Trace trace = random_trace(1000, 300, 100, 1);
  const ReplayResult result = replay(*make_named_policy(GetParam(), 1000, 1000), 1000, trace.offsets, trace.rows, 10, 0);
  EXPECT_EQ(result.evictions, 0);
  EXPECT_EQ(result.rejections, 0);
  const std::set<std::int64_t> distinct(trace.rows.begin(), trace.rows.end());
  EXPECT_EQ(result.reads - result.hits, static_cast<std::int64_t>(distinct.size()));
}

INSTANTIATE_TEST_SUITE_P(Evictions, PolicyTest, testing::ValuesIn(kNames));

// Rows come round in turn, more of them than slots: recency keeps exactly those that are needed last.
TEST(NextUse, KeepsWhatIsNeededSoonestWhereRecencyKeepsNothing) {
  Trace trace;
  for (int step = 0; step < 600; ++step) {
    trace.rows.push_back(step % 40);
    trace.offsets.push_back(step + 1);
  }
  ClockPolicy recency(40, 30);
  ScoredPolicy next_use(40, 30, Eviction::kNextUse);
  EXPECT_EQ(replay(recency, 40, trace.offsets, trace.rows, 100, 0).hits, 0);
  // Belady's rule would hit 29 of 39; rejecting the newcomer, which is needed last, does that.
  EXPECT_GT(replay(next_use, 40, trace.offsets, trace.rows, 100, 100).hits, 500 * 7 / 10);
}

TEST(ClockPolicy, WhatWasUsedAgainStaysForOneMoreRound) {
  ClockPolicy clock(100, 3);
  for (std::int64_t row = 0; row < 3; ++row) EXPECT_EQ(clock.admit(row, 0, kNever).slot, row);
  clock.touch(0, 0, 1, kNever);
  EXPECT_EQ(clock.admit(10, 2, kNever).evicted_row, 1);  // the hand spares 0, and comes to 1
  EXPECT_EQ(clock.admit(11, 3, kNever).evicted_row, 2);
  EXPECT_EQ(clock.admit(12, 4, kNever).evicted_row, 0);  // not used again since the hand came by
  EXPECT_EQ(clock.admit(13, 5, kNever).evicted_row, 10);
}

TEST(ClockPolicy, ATableThatTheStepUsesWhollyTakesNothingIn) {
  ClockPolicy clock(100, 2);
  clock.admit(0, 0, kNever);
  clock.admit(1, 0, kNever);
  EXPECT_FALSE(clock.admit(2, 0, kNever).accepted());
  clock.touch(0, 0, 1, kNever);
  EXPECT_EQ(clock.admit(2, 1, kNever).evicted_row, 1);
  EXPECT_FALSE(clock.admit(3, 1, kNever).accepted());
  clock.release(0, 0);
  EXPECT_EQ(clock.admit(3, 1, kNever).slot, 0);
}

// What scored_sets.h says, row by row and without sets' bounds.
class PlainSets {
 public:
  PlainSets(std::int64_t rows, std::int64_t slots) : held_(static_cast<std::size_t>(std::min(rows, slots))) {}

  void touch(std::int32_t slot, std::uint32_t score, std::int64_t time) {
    Held& held = held_[static_cast<std::size_t>(slot)];
    held = {held.row, score, time};
  }
  void release(std::int32_t slot) { held_[static_cast<std::size_t>(slot)] = {}; }
  Admission insert(std::int64_t row, std::uint32_t score, std::int64_t time) {
    const auto slots = static_cast<std::int64_t>(held_.size()), sets = (slots + 31) / 32;
    const std::int64_t set = row % sets, begin = set * (slots / sets) + std::min(set, slots % sets);
    const std::int64_t end = begin + slots / sets + (set < slots % sets);
    std::int64_t goes = -1;
    for (std::int64_t slot = begin; slot < end; ++slot) {
      const Held& held = held_[static_cast<std::size_t>(slot)];
      if (held.row < 0) goes = -2;
      if (goes == -2 || held.time == time) continue;
      const Held* worst = goes < 0 ? nullptr : &held_[static_cast<std::size_t>(goes)];
      if (worst == nullptr || std::pair(held.score, held.time) < std::pair(worst->score, worst->time)) goes = slot;
    }
    if (goes == -2)  // any free slot will do; the sets say which
      return {-2, -1};
    if (goes < 0 || score <= held_[static_cast<std::size_t>(goes)].score) return {};
    const Admission admission{static_cast<std::int32_t>(goes), held_[static_cast<std::size_t>(goes)].row};
    put(admission.slot, row, score, time);
    return admission;
  }
  void put(std::int32_t slot, std::int64_t row, std::uint32_t score, std::int64_t time) {
    held_[static_cast<std::size_t>(slot)] = {row, score, time};
  }
  std::int64_t row(std::int32_t slot) const { return held_[static_cast<std::size_t>(slot)].row; }

 private:
  struct Held {
    std::int64_t row = -1;
    std::uint32_t score = 0;
    std::int64_t time = -1;
  };
  std::vector<Held> held_;
};

TEST(ScoredSets, DecideAsTheirPlainTwin) {
  for (const std::int64_t slots : {1, 7, 32, 33, 70, 100}) {
    ScoredSets sets(300, slots);
    PlainSets plain(300, slots);
    std::map<std::int64_t, std::int32_t> directory;
    std::mt19937 random(static_cast<unsigned>(slots));
    for (std::int64_t time = 0; time < 300; ++time)
      for (int call = 0; call < 20; ++call) {
        const auto row = static_cast<std::int64_t>(random() % 300);
        const auto score = static_cast<std::uint32_t>(random() % 12);
        const auto place = directory.find(row);
        if (place != directory.end() && random() % 8 == 0) {
          sets.release(place->second);
          plain.release(place->second);
          directory.erase(place);
        } else if (place != directory.end()) {
          sets.touch(place->second, score, time);
          plain.touch(place->second, score, time);
          ASSERT_EQ(sets.score(place->second), score);
        } else {
          const Admission admission = sets.insert(row, score, time), expected = plain.insert(row, score, time);
          if (expected.slot == -2) {
            ASSERT_TRUE(admission.accepted());
            ASSERT_EQ(plain.row(admission.slot), -1);
            plain.put(admission.slot, row, score, time);
          } else {
            ASSERT_EQ(admission.slot, expected.slot);
          }
          ASSERT_EQ(admission.evicted_row, expected.evicted_row);
          if (admission.evicted_row >= 0) directory.erase(admission.evicted_row);
          if (admission.accepted()) directory[row] = admission.slot;
        }
      }
  }
}

TEST(FrequencySketch, NeverCountsTooLittleAndSeldomTooMuch) {
  FrequencySketch sketch(4000);
  std::mt19937 random(2);
  std::map<std::int64_t, std::uint32_t> exact;
  int too_high = 0;
  for (int i = 0; i < 20000; ++i) {
    const auto key = static_cast<std::int64_t>(random() % (i % 2 ? 4000 : 40));
    const std::uint32_t estimate = sketch.count(key);
    ASSERT_GE(estimate, ++exact[key]);
    too_high += estimate > exact[key];
  }
  EXPECT_LT(too_high, 20000 / 10);
}

TEST(FrequencySketch, StopsAtItsLimit) {
  FrequencySketch sketch(1);
  std::uint32_t last = 0;
  for (int i = 0; i < 70000; ++i) last = sketch.count(5);
  EXPECT_EQ(last, 65535u);
}

TEST(ScoredPolicy, RefusesNonsense) {
  EXPECT_THROW(ScoredPolicy(10, 0, Eviction::kLfu), std::invalid_argument);
  EXPECT_THROW(ScoredPolicy(10, 5, Eviction::kLfu, 0), std::invalid_argument);
  EXPECT_THROW(ClockPolicy(10, 0), std::invalid_argument);
  EXPECT_THROW(make_named_policy("fifo", 10, 5), std::invalid_argument);
}

}  // namespace
}  // namespace frugal
