// The engine's contract for cache policies (engine/cache_policy.h), held against each of them; and what next use is
// for.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include "cache/frequency_sketch.h"
#include "cache/replay.h"
#include "cache/scored_policy.h"

namespace frugal {
namespace {

constexpr Eviction kEvictions[] = {Eviction::kLru, Eviction::kLfu, Eviction::kEpochLru, Eviction::kEpochLfu,
                                   Eviction::kNextUse};

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

class PolicyTest : public testing::TestWithParam<Eviction> {};

TEST_P(PolicyTest, KeepsTheEnginesContract) {
  constexpr std::int64_t kRows = 400;
  for (const std::int64_t slots : {1, 31, 32, 33, 100, 400, 500}) {
    ScoredPolicy policy(kRows, slots, GetParam(), 20);
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
  ScoredPolicy policy(1000, 1000, GetParam());
  const ReplayResult result = replay(policy, 1000, trace.offsets, trace.rows, 10, 0);
  EXPECT_EQ(result.evictions, 0);
  EXPECT_EQ(result.rejections, 0);
  const std::set<std::int64_t> distinct(trace.rows.begin(), trace.rows.end());
  EXPECT_EQ(result.reads - result.hits, static_cast<std::int64_t>(distinct.size()));
}

INSTANTIATE_TEST_SUITE_P(Evictions, PolicyTest, testing::ValuesIn(kEvictions));

// Rows come round in turn, more of them than slots: recency keeps exactly those that are needed last.
TEST(NextUse, KeepsWhatIsNeededSoonestWhereRecencyKeepsNothing) {
  Trace trace;
  for (int step = 0; step < 600; ++step) {
    trace.rows.push_back(step % 40);
    trace.offsets.push_back(step + 1);
  }
  ScoredPolicy recency(40, 30, Eviction::kLru), next_use(40, 30, Eviction::kNextUse);
  EXPECT_EQ(replay(recency, 40, trace.offsets, trace.rows, 100, 0).hits, 0);
  // Belady's rule would hit 29 of 39; rejecting the newcomer, which is needed last, does that.
  EXPECT_GT(replay(next_use, 40, trace.offsets, trace.rows, 100, 100).hits, 500 * 7 / 10);
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
  EXPECT_THROW(ScoredPolicy(10, 0, Eviction::kLru), std::invalid_argument);
  EXPECT_THROW(ScoredPolicy(10, 5, Eviction::kLru, 0), std::invalid_argument);
  EXPECT_THROW(eviction_named("fifo"), std::invalid_argument);
}

}  // namespace
}  // namespace frugal
