// Plans of steps that several threads look up: what a plain simulation says, to the bit, for any number of threads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <string>

#include "cache/policies.h"
#include "cache/static_hot_set.h"
#include "engine/engine.h"
#include "tests/engine/random_admission.h"
#include "tests/engine/random_rows.h"

namespace frugal::testing::planner_threads {
namespace {

constexpr std::int64_t kRows = 60'000, kMost = 12'000;
constexpr int kSteps = kPlannedSteps, kLookahead = 4;

struct Plan {
  std::vector<std::int32_t> source;
  std::vector<RowDestination> leave;
  std::vector<std::int64_t> target;
  std::vector<std::array<std::int64_t, 4>> write_backs;  // row, slot, after, block

  bool operator==(const Plan&) const = default;
};

// Steps from none to kMost rows, so that all numbers of threads from one on are woken.
std::vector<std::vector<std::int64_t>> random_steps(unsigned seed) {
  std::mt19937_64 random(seed);
  constexpr RandomRows rows{.table = kRows, .most = kMost, .small = 6, .again = 2, .share = 20};
  std::vector<std::vector<std::int64_t>> steps(kSteps);
  for (auto& step : steps) step = rows(random);
  return steps;
}

using Rows = std::vector<std::int64_t>;

// A table of kRows rows.
std::vector<float> host_table() {
  return std::vector<float>(static_cast<std::size_t>(kRows * RowLayout::for_dim(1).stride));
}

EngineConfig config_of(std::vector<float>& table, std::shared_ptr<CachePolicy> policy, int threads) {
  EngineConfig config;
  config.layout = RowLayout::for_dim(1);
  config.rows = kRows;
  config.host_rows = table.data();
  config.max_rows_per_step = kMost;
  config.lookahead = kLookahead;
  config.planner_threads = threads;
  config.update = std::make_shared<RowAdagradUpdate>(0.1f);
  if (policy) config.caches = {policy};
  return config;
}

// given: rows are registered where they lie, each step's in memory of its own, which must be let go once it is planned.
std::vector<Plan> plans_of(const std::vector<Rows>& steps, std::shared_ptr<CachePolicy> policy, int threads,
                           FlushMode mode = FlushMode::kDirect, bool given = false) {
  std::vector<float> table = host_table();
  EngineConfig config = config_of(table, policy, threads);
  config.mode = mode;
  Engine engine(config);
  EngineClient& client = engine.client(0);
  std::vector<Plan> plans(steps.size());
  std::vector<std::weak_ptr<const Rows>> owners;
  std::int64_t registered = 0;
  for (std::int64_t s = 0; s < kSteps; ++s) {
    for (; registered < kSteps && registered <= s + kLookahead; ++registered) {
      const Rows& rows = steps[static_cast<std::size_t>(registered)];
      const auto owner = given ? std::make_shared<const Rows>(rows) : nullptr;
      owners.push_back(owner);
      client.register_step(registered, owner ? *owner : rows, {}, owner);
    }
    const StepPlan plan = client.plan(s);
    EXPECT_TRUE(owners[static_cast<std::size_t>(s)].expired());
    Plan& made = plans[static_cast<std::size_t>(s)];
    EXPECT_TRUE(std::ranges::equal(plan.rows, steps[static_cast<std::size_t>(s)]));
    made.source.assign(plan.source.begin(), plan.source.end());
    made.leave.assign(plan.leave.begin(), plan.leave.end());
    made.target.assign(plan.target.begin(), plan.target.end());
    for (auto requests = client.write_backs(s); !requests.empty(); requests = client.write_backs(s)) {
      for (const WriteBack& request : requests)  // whenever they come
        plans[static_cast<std::size_t>(request.block)].write_backs.push_back(
            {request.row, request.slot, request.after, request.block});
      client.publish_write_backs(static_cast<std::int64_t>(requests.size()));
    }
    client.wait_gate(s);
    client.publish(s);
  }
  for (Plan& plan : plans) std::ranges::sort(plan.write_backs);
  return plans;
}

std::vector<std::int64_t> hot_rows() {  // some of the rows that come again, some that rarely do, one never
  std::vector<std::int64_t> hot;
  for (std::int64_t row = 0; row < kRows; row += row < 3000 ? 2 : 70) hot.push_back(row);
  std::shuffle(hot.begin(), hot.end(), std::mt19937(5));
  return hot;
}

TEST(PlannerThreads, AStaticCacheIsPlannedAsAPlainLoopSays) {
  const auto hot = hot_rows();
  std::map<std::int64_t, std::int32_t> slot_of;
  for (const std::int64_t row : hot) slot_of[row] = 0;
  for (std::int32_t next = 0; auto& [row, slot] : slot_of) slot = next++;
  for (unsigned seed = 0; seed < 2; ++seed) {
    const auto steps = random_steps(seed);
    std::set<std::int64_t> cached;
    std::vector<Plan> expected;
    for (const auto& step : steps) {
      Plan plan;
      for (const std::int64_t row : step) {
        const auto slot = slot_of.find(row);
        const bool stays = slot != slot_of.end();
        plan.source.push_back(cached.contains(row) ? slot->second : kFromHost);
        plan.leave.push_back(stays ? RowDestination::kCache : RowDestination::kHostRow);
        plan.target.push_back(stays ? slot->second : row);
        if (stays) cached.insert(row);
      }
      expected.push_back(plan);
    }
    for (const int threads : {1, 2, 3, 5})
      EXPECT_TRUE(plans_of(steps, std::make_shared<StaticHotSet>(hot), threads) == expected) << threads << " threads";
  }
}

TEST(PlannerThreads, RowsThatAreGivenArePlannedAsThoseThatAreCopied) {
  const auto steps = random_steps(4);
  const auto hot = hot_rows();
  const std::function<std::shared_ptr<CachePolicy>()> policies[] = {
      [&] { return std::make_shared<StaticHotSet>(hot); },
      [] { return make_cache_policy("lfu", kRows, 5000); }};
  for (const auto& policy : policies)
    for (const int threads : {1, 3})
      EXPECT_TRUE(plans_of(steps, policy(), threads, FlushMode::kDirect, true) == plans_of(steps, policy(), 1));
}

TEST(PlannerThreads, AGivenListThatIsNoneStopsTheEngine) {
  for (const std::size_t position : {0, 1, 511, 512, 513, 1500, 2999})  // ranges of threads begin and end there
    for (const std::int64_t row : {std::int64_t{-1}, std::int64_t{kRows}, std::int64_t{0}}) {
      if (position == 0 && row == 0) continue;
      auto rows = std::make_shared<Rows>(3000);
      std::iota(rows->begin(), rows->end(), 7);
      (*rows)[position] = row;
      std::vector<float> table = host_table();
      Engine engine(config_of(table, std::make_shared<StaticHotSet>(hot_rows()), 3));
      engine.client(0).register_step(0, *rows, {}, rows);
      try {
        engine.client(0).plan(0);
        FAIL() << "planned with row " << row << " at position " << position;
      } catch (const EngineError& error) {
        const std::string which = "Row " + std::to_string(row) + " at position " + std::to_string(position);
        EXPECT_THAT(error.what(), ::testing::HasSubstr(which + " is out of range or not in ascending order."));
      }
    }
}

TEST(PlannerThreads, WithoutACacheAllRowsComeFromHost) {
  const auto steps = random_steps(3);
  for (const Plan& plan : plans_of(steps, nullptr, 4)) {
    EXPECT_EQ(std::ranges::count(plan.source, kFromHost), static_cast<std::int64_t>(plan.source.size()));
    EXPECT_EQ(std::ranges::count(plan.leave, RowDestination::kHostRow), static_cast<std::int64_t>(plan.leave.size()));
  }
}

TEST(PlannerThreads, PlansDoNotDependOnTheirNumber) {
  for (unsigned seed = 10; seed < 12; ++seed) {
    const auto steps = random_steps(seed);
    const auto policy = [&] { return std::make_shared<RandomAdmission>(2 * kMost, 0.3, seed); };
    const auto expected = plans_of(steps, policy(), 1);
    std::int64_t hits = 0;
    for (const Plan& plan : expected)
      hits += static_cast<std::int64_t>(plan.source.size()) - std::ranges::count(plan.source, kFromHost);
    EXPECT_GT(hits, 1000);
    for (const int threads : {2, 4}) {
      const auto plans = plans_of(steps, policy(), threads);
      for (int s = 0; s < kSteps; ++s) {
        EXPECT_EQ(plans[s].source, expected[s].source);
        EXPECT_EQ(plans[s].leave, expected[s].leave);
        EXPECT_EQ(plans[s].target, expected[s].target);
      }
    }
    // Values that leave through staging, a static cache too: nothing is planned by threads there.
    const auto staged = plans_of(steps, std::make_shared<StaticHotSet>(hot_rows()), 1, FlushMode::kP2F);
    const auto of_threads = plans_of(steps, std::make_shared<StaticHotSet>(hot_rows()), 3, FlushMode::kP2F);
    for (int s = 0; s < kSteps; ++s) EXPECT_TRUE(staged[s].source == of_threads[s].source);
  }
}

// What a rank alone does whose cache evicts, row by row: the policy is asked as its contract says, from one thread.
std::vector<Plan> plain_plans(const std::vector<std::vector<std::int64_t>>& steps, CachePolicy& policy) {
  struct Held {
    std::int64_t row = -1, since = -1;
  };
  std::map<std::int64_t, std::int32_t> slot_of;
  std::vector<Held> held(static_cast<std::size_t>(policy.slots()));
  std::map<std::int64_t, std::int32_t> count;
  std::vector<Plan> plans;
  for (std::int64_t s = 0; s < kSteps; ++s) {
    const auto& rows = steps[static_cast<std::size_t>(s)];
    const auto use = [&](std::int64_t row) -> RowUse { return {row, s, count[row]}; };
    Plan plan;
    for (const std::int64_t row : rows) {
      ++count[row];
      const auto at = slot_of.find(row);
      const std::int32_t slot = at == slot_of.end() ? kFromHost : at->second;
      plan.source.push_back(slot);
      plan.leave.push_back(slot < 0 ? RowDestination::kHostRow : RowDestination::kCache);
      plan.target.push_back(slot < 0 ? row : slot);
      if (slot < 0) continue;
      policy.touch(use(row), slot);
      held[static_cast<std::size_t>(slot)].since = s;
    }
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (plan.source[i] >= 0) continue;
      const std::int32_t slot = policy.admit(use(rows[i]));
      if (slot == kRejected) continue;
      Held& there = held[static_cast<std::size_t>(slot)];
      if (there.row >= 0) {
        slot_of.erase(there.row);
        plan.write_backs.push_back({there.row, slot, there.since, s});
      }
      there = {rows[i], s};
      slot_of[rows[i]] = slot;
      plan.leave[i] = RowDestination::kCache;
      plan.target[i] = slot;
    }
    std::ranges::sort(plan.write_backs);
    plans.push_back(plan);
  }
  return plans;
}

TEST(PlannerThreads, ACacheInPartsIsPlannedAsAPlainLoopSays) {
  const auto steps = random_steps(20);
  const auto policy = [] { return make_cache_policy("lfu", kRows, 2 * kMost, 4); };
  const auto expected = plain_plans(steps, *policy());
  std::size_t evictions = 0;
  for (const Plan& plan : expected) evictions += plan.write_backs.size();
  EXPECT_GT(evictions, 1000u);
  for (const int threads : {1, 2, 4})
    EXPECT_TRUE(plans_of(steps, policy(), threads) == expected) << threads << " threads";
}

// One of four threads finds it.
class EvictsInOnePart final : public CachePolicy {
 public:
  std::int64_t slots() const override { return kMost; }
  int parts() const override { return 4; }
  void touch(const RowUse&, std::int32_t) override {}
  std::int32_t admit(const RowUse& use) override { return use.row % 4 == 2 ? 0 : kRejected; }
  void release(std::int64_t, std::int32_t) override {}
};

TEST(PlannerThreads, WhatAThreadThrowsStopsTheEngine) {
  EXPECT_THROW(
      {
        try {
          plans_of(random_steps(21), std::make_shared<EvictsInOnePart>(), 4);
        } catch (const EngineError& error) {
          EXPECT_NE(std::string(error.what()).find("evicted a row"), std::string::npos);
          throw;
        }
      },
      EngineError);
}

}  // namespace
}  // namespace frugal::testing::planner_threads
