// Plans with in-step synchronisation: what a plain simulation of rows, caches and steps says, for any number of
// threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "cache/static_hot_set.h"
#include "engine/engine.h"
#include "engine/row_sharing.h"
#include "tests/engine/random_rows.h"

namespace frugal::testing::rank_plans {
namespace {

constexpr std::int64_t kRows = 20'000, kMost = 5'000;
constexpr int kSteps = kPlannedSteps, kLookahead = 4;

using Rows = std::vector<std::int64_t>;
using Steps = std::vector<std::vector<Rows>>;  // [step][rank]

struct Plan {
  std::vector<std::int32_t> source;
  std::vector<RowDestination> leave;
  std::vector<std::int64_t> target;
  std::set<std::array<std::int64_t, 4>> write_backs;  // row, slot, after, block

  bool operator==(const Plan&) const = default;
};
using Plans = std::vector<std::vector<Plan>>;  // [step][rank]

Steps random_steps(int ranks, unsigned seed) {
  std::mt19937_64 random(seed);
  constexpr RandomRows rows{.table = kRows, .most = kMost, .small = 5, .again = 4, .share = 40};  // some often shared
  Steps steps(kSteps, std::vector<Rows>(static_cast<std::size_t>(ranks)));
  for (auto& step : steps)
    for (Rows& of_rank : step) of_rank = rows(random);
  return steps;
}

Rows hot_rows(int rank) {  // overlapping ones
  Rows hot;
  for (std::int64_t row = rank; row < kRows; row += row < 2000 ? 2 : 30) hot.push_back(row);
  return hot;
}

Plans plans_of(const Steps& steps, int threads) {
  const int ranks = static_cast<int>(steps[0].size());
  std::vector<float> table(static_cast<std::size_t>(kRows * RowLayout::for_dim(1).stride));
  EngineConfig config;
  config.ranks = ranks;
  config.mode = FlushMode::kDirect;
  config.layout = RowLayout::for_dim(1);
  config.rows = kRows;
  config.host_rows = table.data();
  config.max_rows_per_step = kMost;
  config.lookahead = kLookahead;
  config.planner_threads = threads;
  config.update = std::make_shared<RowAdagradUpdate>(0.1f);
  for (int r = 0; r < ranks; ++r) config.caches.push_back(std::make_shared<StaticHotSet>(hot_rows(r)));
  Engine engine(config);
  Plans plans(steps.size(), std::vector<Plan>(static_cast<std::size_t>(ranks)));
  const std::vector<std::int32_t> once(2 * kMost, 1);
  std::int64_t registered = 0;
  for (std::int64_t s = 0; s < kSteps; ++s) {
    for (; registered < kSteps && registered <= s + kLookahead; ++registered)
      for (int r = 0; r < ranks; ++r) {
        const Rows& rows = steps[static_cast<std::size_t>(registered)][static_cast<std::size_t>(r)];
        engine.client(r).register_step(registered, rows, {once.data(), 2 * rows.size()});
      }
    for (int r = 0; r < ranks; ++r) {
      EngineClient& client = engine.client(r);
      const StepPlan plan = client.plan(s);
      Plan& made = plans[static_cast<std::size_t>(s)][static_cast<std::size_t>(r)];
      made.source.assign(plan.source.begin(), plan.source.end());
      made.leave.assign(plan.leave.begin(), plan.leave.end());
      made.target.assign(plan.target.begin(), plan.target.end());
      for (auto requests = client.write_backs(s); !requests.empty(); requests = client.write_backs(s)) {
        for (const WriteBack& each : requests)  // also of later plans, which come when they come
          plans[static_cast<std::size_t>(each.block)][static_cast<std::size_t>(r)].write_backs.insert(
              {each.row, each.slot, each.after, each.block});
        client.publish_write_backs(std::ssize(requests));
      }
      client.wait_gate(s);
      client.publish(s);
    }
  }
  return plans;
}

// Row by row, as docs/p2f.md and docs/exactness.md have it.
class Simulation {
 public:
  explicit Simulation(int ranks) : slot_of_(static_cast<std::size_t>(ranks)) {
    for (int r = 0; r < ranks; ++r) {
      const Rows hot = hot_rows(r);
      for (std::size_t i = 0; i < hot.size(); ++i)
        slot_of_[static_cast<std::size_t>(r)][hot[i]] = static_cast<std::int64_t>(i);
    }
  }

  std::vector<Plan> step(std::int64_t s, const std::vector<Rows>& lists) {
    std::map<std::int64_t, std::vector<std::pair<std::size_t, std::size_t>>> users;  // of each row: rank, index
    std::vector<Plan> plans(lists.size());
    for (std::size_t r = 0; r < lists.size(); ++r) {
      plans[r].source.resize(lists[r].size());
      plans[r].leave.resize(lists[r].size());
      plans[r].target.resize(lists[r].size(), -1);  // of gradients: not looked at
      for (std::size_t i = 0; i < lists[r].size(); ++i) users[lists[r][i]].emplace_back(r, i);
    }
    for (const auto& [row, of_row] : users) {
      const auto at = cached_.find(row);
      const auto [rank, index] = of_row[0];
      const auto wanted = slot_of_[rank].find(row);
      if (at != cached_.end() && of_row.size() == 1 && at->second.rank == rank) {
        plans[rank].source[index] = static_cast<std::int32_t>(wanted->second);
        plans[rank].leave[index] = RowDestination::kCache;
        plans[rank].target[index] = wanted->second;
        at->second.since = s;
        continue;
      }
      const auto changed = changed_.find(row);
      bool late = changed != changed_.end() && changed->second >= s - kLateSteps;
      if (at != cached_.end()) {
        const auto [holder, since] = at->second;
        plans[holder].write_backs.insert({row, slot_of_[holder].at(row), since, s});
        cached_.erase(at);
        late = true;
      }
      for (const auto& [r, i] : of_row) plans[r].source[i] = late ? kFromHostLate : kFromHost;
      if (of_row.size() > 1) {
        for (const auto& [r, i] : of_row) plans[r].leave[i] = RowDestination::kGradient;
        changed_[row] = s;
      } else if (wanted != slot_of_[rank].end()) {
        plans[rank].leave[index] = RowDestination::kCache;
        plans[rank].target[index] = wanted->second;
        cached_[row] = {rank, s};
      } else {
        plans[rank].leave[index] = RowDestination::kHostRow;
        plans[rank].target[index] = row;
        changed_[row] = s;
      }
    }
    return plans;
  }

 private:
  struct Held {
    std::size_t rank;
    std::int64_t since;
  };

  std::vector<std::map<std::int64_t, std::int64_t>> slot_of_;  // by rank: of the rows that its cache admits
  std::map<std::int64_t, Held> cached_;
  std::map<std::int64_t, std::int64_t> changed_;  // by which step
};

void forget_places_of_gradients(Plan& plan) {
  for (std::size_t i = 0; i < plan.leave.size(); ++i)
    if (plan.leave[i] == RowDestination::kGradient) plan.target[i] = -1;
}

TEST(RankPlans, AreWhatAPlainLoopSays) {
  for (const int ranks : {2, 3})
    for (unsigned seed = 0; seed < 2; ++seed) {
      const Steps steps = random_steps(ranks, seed);
      Simulation simulation(ranks);
      Plans expected;
      for (std::int64_t s = 0; s < kSteps; ++s)
        expected.push_back(simulation.step(s, steps[static_cast<std::size_t>(s)]));
      std::int64_t late = 0, gradients = 0;
      for (const auto& step : expected)
        for (const Plan& plan : step) {
          late += std::ranges::count(plan.source, kFromHostLate);
          gradients += std::ranges::count(plan.leave, RowDestination::kGradient);
        }
      EXPECT_GT(late, 1000);
      EXPECT_GT(gradients, 1000);
      for (const int threads : {1, 2, 4}) {
        Plans plans = plans_of(steps, threads);
        for (std::size_t s = 0; s < plans.size(); ++s)
          for (std::size_t r = 0; r < plans[s].size(); ++r) {
            forget_places_of_gradients(plans[s][r]);
            EXPECT_EQ(plans[s][r].source, expected[s][r].source) << s << " " << r << " " << threads;
            EXPECT_EQ(plans[s][r].leave, expected[s][r].leave);
            EXPECT_EQ(plans[s][r].target, expected[s][r].target);
            EXPECT_EQ(plans[s][r].write_backs, expected[s][r].write_backs);
          }
      }
    }
}

TEST(RowSharing, KnowsTheRowsOfOthers) {
  const Rows lists[] = {{0, 5, 7, kRows - 1}, {}, {5, 8}, {7, 8, 9, kRows - 1}};
  RowSharing sharing(4, 4);
  for (int round = 0; round < 2; ++round) {  // the second time with other rows
    const auto list = [&](int rank) -> const Rows& { return lists[(rank + round) % 4]; };
    for (int rank = 0; rank < 4; ++rank) sharing.set_rows(rank, list(rank));
    for (int rank = 0; rank < 4; ++rank) sharing.filter_others(rank);
    for (int rank = 0; rank < 4; ++rank)
      for (std::int64_t row = 0; row < kRows; ++row) {
        bool others = false;
        for (int other = 0; other < 4; ++other) others |= other != rank && std::ranges::count(list(other), row) > 0;
        ASSERT_EQ(sharing.others_have(rank, row), others) << rank << " " << row;
      }
  }
}

}  // namespace
}  // namespace frugal::testing::rank_plans
