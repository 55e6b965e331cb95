#include <gtest/gtest.h>

#include <map>
#include <random>
#include <stdexcept>
#include <tuple>

#include "cache/cache_index.h"

namespace frugal {
namespace {

constexpr Key kKeys = 2000;
constexpr ScorePolicy kPolicies[] = {ScorePolicy::kLru, ScorePolicy::kLfu, ScorePolicy::kEpochLru,
                                     ScorePolicy::kEpochLfu, ScorePolicy::kCustomized};

// What the contract says, written down as plainly as possible: a dictionary with scores.
class Dictionary {
 public:
  struct Row {
    Slot slot;
    Score score;
    std::int64_t touched;
  };
  std::map<Key, Row> rows;

  Upsert insert_and_evict(const CacheIndex& index, Key key, Score given) {
    const ScoreClock clock = index.clock();
    if (auto row = rows.find(key); row != rows.end()) {
      row->second = {row->second.slot, score_of_touch(index.policy(), clock, row->second.score, given), clock.time};
      return {row->second.slot, true, kNoKey, 0};
    }
    const auto [first, last] = index.slots_of_key(key);
    std::map<Slot, Key> taken;
    for (const auto& [other, row] : rows)
      if (row.slot >= first && row.slot < last) taken[row.slot] = other;
    const Score score = score_of_insert(index.policy(), clock, given);
    Upsert expected;
    if (static_cast<Slot>(taken.size()) < last - first) {
      expected.slot = kNoSlot;  // any free slot will do: the caller fills in which
    } else {
      Key victim = kNoKey;
      for (const auto& [slot, other] : taken) {
        const Row& row = rows.at(other);
        if (row.touched == clock.time) continue;
        if (victim == kNoKey ||
            std::tie(row.score, row.touched) < std::tie(rows.at(victim).score, rows.at(victim).touched))
          victim = other;
      }
      if (victim == kNoKey || score < rows.at(victim).score) return {};
      expected = {rows.at(victim).slot, false, victim, rows.at(victim).score};
      rows.erase(victim);
    }
    rows[key] = {expected.slot, score, clock.time};
    return expected;
  }
};

class CacheIndexTest : public testing::TestWithParam<std::tuple<Slot, ScorePolicy>> {};

TEST_P(CacheIndexTest, BehavesLikeADictionaryWithScores) {
  const auto [capacity, policy] = GetParam();
  CacheIndex index(capacity, policy);
  Dictionary dictionary;
  std::mt19937 random(capacity * 31 + static_cast<int>(policy));
  std::uint32_t epoch = 0;
  for (std::int64_t time = 0; time < 200; ++time) {
    index.set_time(time / 2);
    if (random() % 20 == 0) index.set_epoch(++epoch);
    for (int i = 0; i < 60; ++i) {
      const Key key = random() % (random() % 4 ? kKeys : kKeys / 16);
      const Score given = random() % 4;  // small, so that equal scores are common
      if (random() % 16 == 0) {
        const bool there = dictionary.rows.erase(key) > 0;
        ASSERT_EQ(index.erase(key), there);
      } else if (random() % 8 == 0) {
        const auto row = dictionary.rows.find(key);
        const Slot slot = row == dictionary.rows.end() ? kNoSlot : row->second.slot;
        ASSERT_EQ(index.assign(key, given), slot);
        if (slot != kNoSlot)
          row->second = {slot, score_of_touch(policy, index.clock(), row->second.score, given), index.clock().time};
      } else {
        const Upsert expected = dictionary.insert_and_evict(index, key, given);
        const Upsert actual = index.insert_and_evict(key, given);
        ASSERT_EQ(actual.found, expected.found);
        ASSERT_EQ(actual.evicted, expected.evicted);
        ASSERT_EQ(actual.evicted_score, expected.evicted_score);
        const auto row = dictionary.rows.find(key);
        if (row == dictionary.rows.end()) {
          ASSERT_EQ(actual.slot, kNoSlot);
        } else {
          if (row->second.slot == kNoSlot) row->second.slot = actual.slot;
          const auto [first, last] = index.slots_of_key(key);
          ASSERT_GE(actual.slot, first);
          ASSERT_LT(actual.slot, last);
        }
      }
    }
    ASSERT_EQ(index.size(), static_cast<Slot>(dictionary.rows.size()));
  }
  const auto entries = index.entries();
  ASSERT_EQ(entries.size(), dictionary.rows.size());
  for (const CacheEntry& entry : entries) {
    const auto& row = dictionary.rows.at(entry.key);
    EXPECT_EQ(std::tie(entry.slot, entry.score, entry.touched), std::tie(row.slot, row.score, row.touched));
    EXPECT_EQ(index.find(entry.key), entry.slot);
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, CacheIndexTest,
                         testing::Combine(testing::Values(1, 5, 127, 128, 129, 700),
                                          testing::ValuesIn(kPolicies)));

TEST(CacheIndex, FindWorksAtFullLoadForKeysBeyond32Bits) {
  CacheIndex index(1000, ScorePolicy::kLru);
  std::mt19937_64 random(3);
  for (int i = 0; i < 20000; ++i) {
    index.set_time(i);
    index.insert_and_evict(static_cast<Key>(random() >> 1), 1);
  }
  EXPECT_EQ(index.size(), 1000);
  for (const CacheEntry& entry : index.entries()) EXPECT_EQ(index.find(entry.key), entry.slot);
}

TEST(CacheIndex, KeysOfTheCurrentTimeStayAndFurtherOnesAreRejected) {
  CacheIndex index(4, ScorePolicy::kCustomized);
  for (Key key = 0; key < 4; ++key) index.insert_and_evict(key, 0);
  EXPECT_EQ(index.insert_and_evict(50, 1000).slot, kNoSlot);
  index.set_time(1);
  EXPECT_EQ(index.insert_and_evict(50, 1000).evicted, 0);
}

TEST(CacheIndex, RefusesWhatItCannotHold) {
  EXPECT_THROW(CacheIndex(0, ScorePolicy::kLru), std::invalid_argument);
  CacheIndex index(4, ScorePolicy::kLru);
  EXPECT_THROW(index.find(-1), std::out_of_range);
  index.set_time(5);
  EXPECT_THROW(index.set_time(4), std::invalid_argument);
  index.set_epoch(5);
  EXPECT_THROW(index.set_epoch(4), std::invalid_argument);
}

TEST(CacheIndex, RestoreRefusesTheContentsOfAnotherCache) {
  CacheIndex small(300, ScorePolicy::kLru), other(200, ScorePolicy::kLru);
  for (Key key = 0; key < 300; ++key) small.insert_and_evict(key, 1);
  auto entries = small.entries();
  EXPECT_THROW(other.restore(entries), std::invalid_argument);
  EXPECT_EQ(other.size(), 0);
  entries.push_back(entries.front());
  EXPECT_THROW(small.restore(entries), std::invalid_argument);
  EXPECT_EQ(small.size(), 0);
  EXPECT_EQ(small.find(0), kNoSlot);
}

TEST(ScorePolicy, CountsSaturateAndEpochsComeFirst) {
  const ScoreClock clock{7, 3};
  EXPECT_EQ(score_of_touch(ScorePolicy::kLfu, clock, ~Score{0} - 1, 5), ~Score{0});
  EXPECT_EQ(score_of_touch(ScorePolicy::kEpochLfu, clock, (Score{2} << 32) | 0xfffffffe, 5),
            (Score{3} << 32) | 0xffffffff);
  EXPECT_GT(score_of_insert(ScorePolicy::kEpochLru, {0, 4}, 0),
            score_of_insert(ScorePolicy::kEpochLru, {1 << 30, 3}, 0));
}

}  // namespace
}  // namespace frugal
