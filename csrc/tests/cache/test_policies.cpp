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
  for (const std::int64_t slots : {1, 28, 29, 30, 100, 400, 500}) {
    const auto made = std::string(GetParam()) == "epoch_lfu"  // with epochs short enough to come and go
                          ? std::make_shared<ScoredPolicy>(kRows, slots, Eviction::kEpochLfu, 20)
                          : make_named_policy(GetParam(), kRows, slots);
    CachePolicy& policy = *made;
    ASSERT_EQ(policy.slots(), std::min(slots, kRows));
    std::map<std::int64_t, std::int32_t> directory;  // row -> slot
    std::map<std::int32_t, std::int64_t> held;       // slot -> row
    std::map<std::int64_t, std::int64_t> used;       // row -> last step
    std::map<std::int64_t, std::int32_t> uses;
    const Trace trace = random_trace(kRows, 200, 60, static_cast<int>(slots));
    std::mt19937 random(7);
    for (std::int64_t step = 0; step < 200; ++step) {
      const auto use = [&](std::int64_t row) -> RowUse {
        return {row, step, row % 3 ? kNever : step + 1 + row % 5, ++uses[row]};
      };
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
          policy.touch(use(row), place->second);
          used[row] = step;
        }
      }
      for (const std::int64_t row : misses) {
        const std::int32_t slot = policy.admit(use(row));
        if (slot == kRejected) continue;
        ASSERT_GE(slot, 0);
        ASSERT_LT(slot, policy.slots());
        const auto before = held.find(slot);
        if (before != held.end()) {
          ASSERT_LT(used[before->second], step) << "a row of this very step was evicted";
          directory.erase(before->second);
        }
        directory[row] = slot;
        held[slot] = row;
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

// Four parts, and the same four by themselves.
TEST_P(PolicyTest, InPartsItDecidesAsEachPartByItself) {
  constexpr std::int64_t kRows = 1002, kSlots = 207;
  constexpr int kParts = 4;
  const auto whole = make_named_policy(GetParam(), kRows, kSlots, kParts);
  ASSERT_EQ(whole->parts(), kParts);
  ASSERT_EQ(whole->slots(), kSlots);
  std::vector<std::shared_ptr<CachePolicy>> parts;
  std::vector<std::int32_t> first{0};
  for (const auto& [rows, slots] : {std::pair{251, 52}, {251, 52}, {250, 52}, {250, 51}}) {
    parts.push_back(make_named_policy(GetParam(), rows, slots, 1));
    first.push_back(first.back() + slots);
  }
  EXPECT_EQ(whole->wants_next_use(), parts[0]->wants_next_use());
  EXPECT_EQ(whole->wants_count(), parts[0]->wants_count());
  std::map<std::int64_t, std::int32_t> slot_of;
  std::map<std::int32_t, std::int64_t> held;
  std::map<std::int64_t, std::int32_t> uses;
  const Trace trace = random_trace(kRows, 200, 100, 3);
  std::mt19937 random(8);
  std::int64_t evictions = 0;
  for (std::int64_t step = 0; step < 200; ++step) {
    std::vector<std::int64_t> misses;
    const auto use = [&](std::int64_t row) -> RowUse { return {row, step, row % 3 ? kNever : step + 1 + row % 5, uses[row]}; };
    const auto in_part = [&](std::int64_t row) {
      RowUse found = use(row);
      found.row /= kParts;
      return found;
    };
    for (auto i = trace.offsets[step]; i < trace.offsets[step + 1]; ++i) {
      const std::int64_t row = trace.rows[i], part = row % kParts;
      ++uses[row];
      const auto at = slot_of.find(row);
      if (at == slot_of.end()) {
        misses.push_back(row);
        continue;
      }
      if (random() % 10 == 0) {
        whole->release(row, at->second);
        parts[part]->release(row / kParts, at->second - first[part]);
        held.erase(at->second);
        slot_of.erase(at);
      } else {
        whole->touch(use(row), at->second);
        parts[part]->touch(in_part(row), at->second - first[part]);
      }
    }
    for (const std::int64_t row : misses) {
      const std::int64_t part = row % kParts;
      const std::int32_t slot = whole->admit(use(row)), expected = parts[part]->admit(in_part(row));
      ASSERT_EQ(slot, expected == kRejected ? kRejected : first[part] + expected);
      if (slot == kRejected) continue;
      const auto before = held.find(slot);
      if (before != held.end()) {
        ++evictions;
        slot_of.erase(before->second);
      }
      held[slot] = row;
      slot_of[row] = slot;
    }
  }
  EXPECT_GT(evictions, 100);
}

TEST(PartedPolicy, RefusesNumbersThatAreNoneOfParts) {
  for (const int parts : {-1, 3, 8}) EXPECT_THROW(make_named_policy("lru", 100, 7, parts), std::invalid_argument) << parts;
  EXPECT_THROW(make_named_policy("lru", 2, 100, 4), std::invalid_argument);
}

TEST(PartedPolicy, OnlyLargeCachesAreInParts) {
  EXPECT_EQ(make_named_policy("lfu", 100'000, 5'000)->parts(), 4);
  EXPECT_EQ(make_named_policy("lfu", 100'000, 500)->parts(), 1);
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
  for (std::int32_t slot = 0; slot < 3; ++slot) EXPECT_EQ(clock.admit({slot, 0}), slot);
  clock.touch({0, 1}, 0);
  EXPECT_EQ(clock.admit({10, 2}), 1);  // the hand spares 0, and comes to 1
  EXPECT_EQ(clock.admit({11, 3}), 2);
  EXPECT_EQ(clock.admit({12, 4}), 0);  // not used again since the hand came by
  EXPECT_EQ(clock.admit({13, 5}), 1);
}

TEST(ClockPolicy, ATableThatTheStepUsesWhollyTakesNothingIn) {
  ClockPolicy clock(100, 2);
  clock.admit({0, 0});
  clock.admit({1, 0});
  EXPECT_EQ(clock.admit({2, 0}), kRejected);
  clock.touch({0, 1}, 0);
  EXPECT_EQ(clock.admit({2, 1}), 1);
  EXPECT_EQ(clock.admit({3, 1}), kRejected);
  clock.release(0, 0);
  EXPECT_EQ(clock.admit({3, 2}), 0);
}

// What clock_policy.h says, slot by slot.
class PlainClock {
 public:
  explicit PlainClock(std::int32_t slots) : slots_(static_cast<std::size_t>(slots)) {}

  void touch(std::int32_t slot, std::int64_t step) { slots_[static_cast<std::size_t>(slot)] = {step, true}; }
  void release(std::int32_t slot) {
    slots_[static_cast<std::size_t>(slot)] = {};
    free_.push_back(slot);
  }
  std::int32_t admit(std::int64_t step) {
    if (std::ranges::all_of(slots_, [&](const Slot& slot) { return slot.last_use == step; })) return kRejected;
    if (!free_.empty()) {
      const std::int32_t slot = free_.back();
      free_.pop_back();
      slots_[static_cast<std::size_t>(slot)].last_use = step;
      return slot;
    }
    while (true) {
      const std::size_t at = hand_++ % slots_.size();
      Slot& slot = slots_[at];
      if (slot.last_use == step) continue;
      if (!slot.again) {
        slot.last_use = step;
        return static_cast<std::int32_t>(at);
      }
      slot.again = false;
    }
  }

 private:
  struct Slot {
    std::int64_t last_use = -1;
    bool again = false;
  };
  std::vector<Slot> slots_;
  std::vector<std::int32_t> free_;
  std::size_t hand_ = 0;
};

TEST(ClockPolicy, DecidesAsItsPlainTwin) {
  for (const std::int32_t slots : {1, 5, 31, 32, 33, 64, 200}) {
    ClockPolicy clock(1000, slots);
    PlainClock plain(slots);
    std::map<std::int32_t, std::int64_t> used;  // slots that are taken, and when
    std::mt19937 random(static_cast<unsigned>(slots));
    for (std::int64_t step = 0; step < 300; ++step) {
      for (auto& [slot, last] : used)
        if (random() % 3 == 0) {
          clock.touch({slot, step}, slot);
          plain.touch(slot, last = step);
        }
      if (!used.empty() && used.begin()->second < step && random() % 4 == 0) {
        clock.release(0, used.begin()->first);
        plain.release(used.begin()->first);
        used.erase(used.begin());
      }
      for (auto rows = random() % 20; rows > 0; --rows) {
        const std::int32_t slot = clock.admit({0, step});
        ASSERT_EQ(slot, plain.admit(step));
        if (slot != kRejected) used[slot] = step;
      }
    }
  }
}

// What scored_sets.h says, row by row and without tricks.
class PlainSets {
 public:
  PlainSets(std::int64_t rows, std::int64_t slots) : held_(static_cast<std::size_t>(std::min(rows, slots))) {}

  void touch(std::int32_t slot, std::int32_t score, std::int64_t time) {
    held_[static_cast<std::size_t>(slot)] = {score, time};
  }
  void release(std::int32_t slot) { held_[static_cast<std::size_t>(slot)] = {}; }
  std::int32_t insert(std::int64_t row, std::int32_t score, std::int64_t time) {
    const auto slots = static_cast<std::int64_t>(held_.size()), sets = (slots + 28) / 29;
    const std::int64_t set = row % sets, begin = set * (slots / sets) + std::min(set, slots % sets);
    const std::int64_t end = begin + slots / sets + (set < slots % sets);
    std::int64_t goes = kRejected;
    for (std::int64_t way = 0; way < 29; ++way) {  // from one on that changes with time
      const std::int64_t slot = begin + (way + time) % 29;
      const auto at = static_cast<std::size_t>(slot);
      if (slot >= end || held_[at].time == time) continue;
      if (goes < 0 || held_[at].score < held_[static_cast<std::size_t>(goes)].score) goes = slot;
    }
    if (goes < 0 || score <= held_[static_cast<std::size_t>(goes)].score) return kRejected;
    touch(static_cast<std::int32_t>(goes), score, time);
    return static_cast<std::int32_t>(goes);
  }

 private:
  struct Held {
    std::int32_t score = -1;
    std::int64_t time = -1;
  };
  std::vector<Held> held_;
};

TEST(ScoredSets, DecideAsTheirPlainTwin) {
  for (const std::int64_t slots : {1, 7, 29, 30, 70, 100}) {
    ScoredSets sets(300, slots);
    PlainSets plain(300, slots);
    std::map<std::int64_t, std::int32_t> directory;
    std::map<std::int32_t, std::int64_t> held;
    std::map<std::int64_t, std::int64_t> used;
    std::mt19937 random(static_cast<unsigned>(slots));
    for (std::int64_t time = 0; time < 300; ++time)
      for (int call = 0; call < 20; ++call) {
        const auto row = static_cast<std::int64_t>(random() % 300);
        const auto score = static_cast<std::int32_t>(random() % 12);
        const auto place = directory.find(row);
        if (place != directory.end() && random() % 8 == 0) {
          sets.release(row, place->second);
          plain.release(place->second);
          held.erase(place->second);
          directory.erase(place);
        } else if (place != directory.end()) {
          sets.touch(row, place->second, score, time);
          plain.touch(place->second, score, time);
          used[row] = time;
        } else {
          const std::int32_t slot = sets.insert(row, score, time);
          ASSERT_EQ(slot, plain.insert(row, score, time));
          if (slot == kRejected) continue;
          if (const auto before = held.find(slot); before != held.end()) {
            ASSERT_LT(used[before->second], time);
            directory.erase(before->second);
          }
          directory[row] = slot;
          held[slot] = row;
          used[row] = time;
        }
      }
  }
}

// Every use counts, whether the row was cached then or not.
TEST(ScoredPolicy, ANewcomerHasToBeUsedMoreOftenThanWhatItPutsOut) {
  ScoredPolicy lfu(10, 1, Eviction::kLfu);
  EXPECT_EQ(lfu.admit({1, 0, kNever, 1}), 0);
  lfu.touch({1, 1, kNever, 2}, 0);
  EXPECT_EQ(lfu.admit({2, 2, kNever, 1}), kRejected);
  EXPECT_EQ(lfu.admit({2, 3, kNever, 2}), kRejected);
  EXPECT_EQ(lfu.admit({2, 4, kNever, 3}), 0);
  EXPECT_EQ(lfu.admit({1, 5, kNever, 3}), kRejected);
  EXPECT_EQ(lfu.admit({1, 6, kNever, 4}), 0);
}

TEST(ScoredPolicy, AnEpochsUsesOutweighThoseOfEarlierOnesAndUsesInSightAllOthers) {
  ScoredPolicy epochs(10, 1, Eviction::kEpochLfu, 100), next(10, 1, Eviction::kNextUse);
  EXPECT_EQ(epochs.admit({1, 0, kNever, 65535}), 0);
  EXPECT_EQ(epochs.admit({2, 99, kNever, 1}), kRejected);
  EXPECT_EQ(epochs.admit({2, 100, kNever, 1}), 0);
  EXPECT_EQ(next.admit({1, 0, kNever, 65535}), 0);
  EXPECT_EQ(next.admit({2, 1, 9, 1}), 0);
  EXPECT_EQ(next.admit({3, 2, 9, 1}), kRejected);
  EXPECT_EQ(next.admit({3, 3, 8, 1}), 0);
}

TEST(ScoredPolicy, RefusesNonsense) {
  EXPECT_THROW(ScoredPolicy(10, 0, Eviction::kLfu), std::invalid_argument);
  EXPECT_THROW(ScoredPolicy(10, 5, Eviction::kLfu, 0), std::invalid_argument);
  EXPECT_THROW(ClockPolicy(10, 0), std::invalid_argument);
  EXPECT_THROW(make_named_policy("fifo", 10, 5), std::invalid_argument);
}

}  // namespace
}  // namespace frugal
