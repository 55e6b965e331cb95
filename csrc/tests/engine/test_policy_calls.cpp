// What a cache policy is told: touches and admissions in the order of the contract, with how often the row was used.
#include <gtest/gtest.h>

#include <mutex>
#include <tuple>
#include <vector>

#include "engine/engine.h"
#include "tests/engine/run_workload.h"

namespace frugal::testing {
namespace {

class Recorder final : public CachePolicy {
 public:
  using Call = std::tuple<char, std::int64_t, std::int64_t, std::int32_t>;  // kind, row, step, count

  std::int64_t slots() const override { return 8; }
  bool wants_count() const override { return true; }
  void touch(const RowUse& use, std::int32_t) override { note({'t', use.row, use.step, use.count}); }
  std::int32_t admit(const RowUse& use) override {
    note({'a', use.row, use.step, use.count});
    return use.row < 8 ? static_cast<std::int32_t>(use.row) : kRejected;
  }
  void release(std::int64_t row, std::int32_t) override { note({'r', row, -1, 0}); }

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
  const RowLayout layout = RowLayout::for_dim(shape.dim);
  table = initial_table(shape, layout);
  EngineConfig config = engine_config(shape, layout, table.data(), std::make_shared<RowAdagradUpdate>(1.0f));
  config.caches = std::move(caches);
  return config;
}

TEST(PolicyCalls, TouchesComeBeforeAdmissionsWithTheCountsOfTheRank) {
  const auto policy = std::make_shared<Recorder>();
  std::vector<float> table;
  Engine engine(config_with({policy}, table, 1));
  EngineClient& client = engine.client(0);
  const std::vector<std::vector<std::int64_t>> steps = {{1, 2, 9}, {2}, {1, 9}, {1, 2}, {2}};
  for (std::size_t s = 0; s < steps.size(); ++s) client.register_step(static_cast<std::int64_t>(s), steps[s], {});
  client.plan(4);
  using Call = Recorder::Call;
  EXPECT_EQ(policy->calls(), (std::vector<Call>{{'a', 1, 0, 1}, {'a', 2, 0, 1}, {'a', 9, 0, 1}, {'t', 2, 1, 2},
                                                {'t', 1, 2, 2}, {'a', 9, 2, 2}, {'t', 1, 3, 3}, {'t', 2, 3, 3},
                                                {'t', 2, 4, 4}}));
}

TEST(PolicyCalls, RowsThatAnotherRankReadsAreReleasedBeforeAnyIsAdmitted) {
  const auto first = std::make_shared<Recorder>(), second = std::make_shared<Recorder>();
  std::vector<float> table;
  Engine engine(config_with({first, second}, table, 2));
  const std::vector<std::int64_t> none, row = {3}, rows = {1, 3};
  const std::vector<std::int32_t> once(4, 1);
  const auto register_both = [&](std::int64_t step, const std::vector<std::int64_t>& a,
                                 const std::vector<std::int64_t>& b) {
    engine.client(0).register_step(step, a, std::span(once).first(2 * a.size()));
    engine.client(1).register_step(step, b, std::span(once).first(2 * b.size()));
    engine.client(0).plan(step);
  };
  register_both(0, row, none);
  register_both(1, none, rows);
  using Call = Recorder::Call;
  EXPECT_EQ(first->calls(), (std::vector<Call>{{'a', 3, 0, 1}, {'r', 3, -1, 0}}));
  EXPECT_EQ(second->calls(), (std::vector<Call>{{'a', 1, 1, 1}, {'a', 3, 1, 1}}));
}

}  // namespace
}  // namespace frugal::testing
