// The engine's contract for cache policies (engine/cache_policy.h), held against the policies that evict.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include "cache/lfu_policy.h"
#include "cache/policies.h"
#include "cache/scored_sets.h"

namespace frugal {
namespace {

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

class EachPolicy : public testing::TestWithParam<std::string_view> {};
INSTANTIATE_TEST_SUITE_P(ByName, EachPolicy, testing::ValuesIn(cache_policy_names()));

TEST_P(EachPolicy, KeepsTheEnginesContract) {
  constexpr std::int64_t kRows = 400;
  for (const std::int64_t slots : {1, 28, 29, 30, 100, 400, 500}) {
    const auto made = make_cache_policy(GetParam(), kRows, slots, 1);
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
        return {row, step, ++uses[row]};
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

// Four parts, and the same four by themselves.
TEST(LfuPolicy, InPartsItDecidesAsEachPartByItself) {
  constexpr std::int64_t kRows = 1002, kSlots = 207;
  constexpr int kParts = 4;
  const auto whole = make_cache_policy("lfu", kRows, kSlots, kParts);
  ASSERT_EQ(whole->parts(), kParts);
  ASSERT_EQ(whole->slots(), kSlots);
  std::vector<std::shared_ptr<CachePolicy>> parts;
  std::vector<std::int32_t> first{0};
  for (const auto& [rows, slots] : {std::pair{251, 52}, {251, 52}, {250, 52}, {250, 51}}) {
    parts.push_back(make_cache_policy("lfu", rows, slots, 1));
    first.push_back(first.back() + slots);
  }
  EXPECT_EQ(whole->wants_count(), parts[0]->wants_count());
  std::map<std::int64_t, std::int32_t> slot_of;
  std::map<std::int32_t, std::int64_t> held;
  std::map<std::int64_t, std::int32_t> uses;
  const Trace trace = random_trace(kRows, 200, 100, 3);
  std::mt19937 random(8);
  std::int64_t evictions = 0;
  for (std::int64_t step = 0; step < 200; ++step) {
    std::vector<std::int64_t> misses;
    const auto use = [&](std::int64_t row) -> RowUse { return {row, step, uses[row]}; };
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
  for (const int parts : {-1, 3, 8})
    EXPECT_THROW(make_cache_policy("lfu", 100, 7, parts), std::invalid_argument) << parts;
  EXPECT_THROW(make_cache_policy("fifo", 100, 7), std::invalid_argument);
  EXPECT_THROW(make_cache_policy("lfu", 2, 100, 4), std::invalid_argument);
}

TEST(PartedPolicy, OnlyLargeCachesAreInParts) {
  EXPECT_EQ(make_cache_policy("lfu", 100'000, 5'000)->parts(), 4);
  EXPECT_EQ(make_cache_policy("lfu", 100'000, 500)->parts(), 1);
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

TEST(ScoredSets, DecideAsTheirReference) {
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
TEST(LfuPolicy, ANewcomerHasToBeUsedMoreOftenThanWhatItPutsOut) {
  LfuPolicy lfu(10, 1);
  EXPECT_EQ(lfu.admit({1, 0, 1}), 0);
  lfu.touch({1, 1, 2}, 0);
  EXPECT_EQ(lfu.admit({2, 2, 1}), kRejected);
  EXPECT_EQ(lfu.admit({2, 3, 2}), kRejected);
  EXPECT_EQ(lfu.admit({2, 4, 3}), 0);
  EXPECT_EQ(lfu.admit({1, 5, 3}), kRejected);
  EXPECT_EQ(lfu.admit({1, 6, 4}), 0);
}

TEST(LfuPolicy, RefusesACacheWithoutSlots) { EXPECT_THROW(LfuPolicy(10, 0), std::invalid_argument); }

}  // namespace
}  // namespace frugal
