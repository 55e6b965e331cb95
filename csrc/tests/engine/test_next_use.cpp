// What a cache policy is told: touches and admissions in the order of the contract, with the next use that the ranks
// have registered.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <tuple>
#include <vector>

#include "engine/engine.h"
#include "tests/engine/run_workload.h"

namespace frugal::testing {
namespace {

class Recorder final : public CachePolicy {
 public:
  using Call = std::tuple<char, std::int64_t, std::int64_t, std::int64_t>;  // kind, row, step, next use

  std::int64_t slots() const override { return 8; }
  bool wants_next_use() const override { return true; }
  void touch(const RowUse& use, std::int32_t) override { note({'t', use.row, use.step, use.next_use}); }
  std::int32_t admit(const RowUse& use) override {
    note({'a', use.row, use.step, use.next_use});
    return use.row < 8 ? static_cast<std::int32_t>(use.row) : kRejected;
  }
  void release(std::int64_t row, std::int32_t) override { note({'r', row, -1, -1}); }

  std::vector<Call> calls() {
    const std::lock_guard lock(mutex_);
    return calls_;
  }

 private:
  void note(Call call) {
    const std::lock_guard lock(mutex_);
    calls_.push_back(call);
  }
  std::mutex mutex_;
  std::vector<Call> calls_;
};

EngineConfig config_with(std::vector<std::shared_ptr<CachePolicy>> caches, std::vector<float>& table, int ranks) {
  Shape shape;
  shape.ranks = ranks;
  shape.slots = 0;
  shape.lookahead = 4;
  shape.horizon = 2;
  const RowLayout layout = RowLayout::for_dim(shape.dim);
  table = initial_table(shape, layout);
  EngineConfig config = engine_config(shape, layout, table.data(), std::make_shared<SgdUpdate>(1.0f));
  config.caches = std::move(caches);
  return config;
}

TEST(NextUse, IsTheNextRegisteredStepOfTheSameRank) {
  const auto policy = std::make_shared<Recorder>();
  std::vector<float> table;
  Engine engine(config_with({policy}, table, 1));
  RankPort& port = engine.port(0);
  const std::vector<std::vector<std::int64_t>> steps = {{1, 2, 9}, {2}, {1, 9}, {1, 2}, {2}};
  for (std::size_t s = 0; s < steps.size(); ++s) port.register_step(static_cast<std::int64_t>(s), steps[s], {});
  port.plan(2);  // steps 0 to 2 have two later ones registered
  using Call = Recorder::Call;
  EXPECT_EQ(policy->calls(),
            (std::vector<Call>{
                {'a', 1, 0, 2}, {'a', 2, 0, 1}, {'a', 9, 0, 2}, {'t', 2, 1, 3}, {'t', 1, 2, 3}, {'a', 9, 2, kNever}}));
  port.plan(4);  // asked for: planned without looking further
  EXPECT_EQ(policy->calls().back(), (Call{'t', 2, 4, kNever}));
}

// Nothing is told beyond the horizon, which is cut to what a row's cell has room for.
class NextUseByHand : public ::testing::TestWithParam<int> {};

TEST_P(NextUseByHand, IsWhatThePlannerTells) {
  constexpr std::int64_t kSteps = 300, kRows = 5000;
  const auto policy = std::make_shared<Recorder>();
  Shape shape;
  shape.ranks = 1;
  shape.slots = 0;
  shape.rows = kRows;
  shape.horizon = GetParam();
  shape.lookahead = shape.horizon + 2;
  const int horizon = std::min(shape.horizon, 15);
  const RowLayout layout = RowLayout::for_dim(shape.dim);
  std::vector<float> table = initial_table(shape, layout);
  EngineConfig config = engine_config(shape, layout, table.data(), std::make_shared<SgdUpdate>(1.0f));
  config.max_rows_per_step = 400;
  config.staging_bytes = 0;  // by the rows of a step
  config.caches = {policy};
  std::mt19937 random(3);
  std::vector<std::vector<std::int64_t>> steps;
  for (std::int64_t s = 0; s < kSteps; ++s) {
    std::set<std::int64_t> rows;  // some steps use few rows, some all that there may be
    const auto count = random() % 3 == 0 ? std::size_t{400} : random() % 50;
    while (rows.size() < count) rows.insert(static_cast<std::int64_t>(random() % (random() % 2 ? kRows : 600)));
    steps.emplace_back(rows.begin(), rows.end());
  }
  Engine engine(config);
  RankPort& port = engine.port(0);
  std::int64_t registered = 0;
  for (std::int64_t s = 0; s < kSteps; ++s) {
    for (; registered < kSteps && registered <= s + shape.lookahead; ++registered)
      port.register_step(registered, steps[static_cast<std::size_t>(registered)], {});
    port.plan(s);
    for (auto requests = port.write_backs(s); !requests.empty(); requests = port.write_backs(s))
      port.publish_write_backs(static_cast<std::int64_t>(requests.size()));
    port.wait_gate(s);
    port.publish(s);
  }
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> told;
  for (const auto& [kind, row, step, next_use] : policy->calls()) told[{step, row}] = next_use;
  for (std::int64_t s = 0; s < kSteps; ++s)
    for (const std::int64_t row : steps[static_cast<std::size_t>(s)]) {
      std::int64_t expected = kNever;
      for (std::int64_t later = std::min(s + horizon, kSteps - 1); later > s; --later)
        if (std::ranges::binary_search(steps[static_cast<std::size_t>(later)], row)) expected = later;
      ASSERT_EQ((told.at({s, row})), expected) << "row " << row << " of step " << s;
    }
}

INSTANTIATE_TEST_SUITE_P(Horizons, NextUseByHand, ::testing::Values(1, 4, 15, 20));

TEST(NextUse, RowsThatAnotherRankReadsAreReleasedBeforeAnyIsAdmitted) {
  const auto first = std::make_shared<Recorder>(), second = std::make_shared<Recorder>();
  std::vector<float> table;
  Engine engine(config_with({first, second}, table, 2));
  const std::vector<std::int64_t> none, row = {3}, rows = {1, 3};
  const std::vector<std::int32_t> once(4, 1);
  const auto register_both = [&](std::int64_t step, const std::vector<std::int64_t>& a,
                                 const std::vector<std::int64_t>& b) {
    engine.port(0).register_step(step, a, std::span(once).first(2 * a.size()));
    engine.port(1).register_step(step, b, std::span(once).first(2 * b.size()));
    engine.port(0).plan(step);
  };
  register_both(0, row, none);
  register_both(1, none, rows);
  using Call = Recorder::Call;
  EXPECT_EQ(first->calls(), (std::vector<Call>{{'a', 3, 0, kNever}, {'r', 3, -1, -1}}));
  EXPECT_EQ(second->calls(), (std::vector<Call>{{'a', 1, 1, kNever}, {'a', 3, 1, kNever}}));
}

}  // namespace
}  // namespace frugal::testing
