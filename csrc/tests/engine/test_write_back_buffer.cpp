// Values that are written back while the next steps run: whatever the device's order of work, every step reads the
// newest ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "cache/policies.h"
#include "cache/static_hot_set.h"
#include "engine/engine.h"
#include "tests/engine/random_admission.h"

namespace frugal::testing::write_back_buffer {
namespace {

constexpr int kSteps = 150, kBufferSteps = 3;

struct Setting {
  std::int64_t rows = 40, max_rows = 12, slots = 8;
  int ranks = 1, lookahead = 3, threads = 1, horizon = 0;
  bool keeps_reused = false, evicts_to_buffer = false;
  std::shared_ptr<CachePolicy> policy;
};

Setting random_setting(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Setting setting;
  setting.ranks = 1 + static_cast<int>(random() % 3);
  setting.lookahead = 1 + static_cast<int>(random() % 6);
  setting.rows = random() % 2 ? 40 : 15;
  setting.slots = random() % 2 ? 8 : 3;
  std::vector<std::int64_t> hot(static_cast<std::size_t>(setting.slots));
  for (std::size_t i = 0; i < hot.size(); ++i) hot[i] = static_cast<std::int64_t>(2 * i);
  switch (seed % 4) {
    case 0:
      setting.slots = 0;
      break;
    case 1:
      setting.policy = std::make_shared<StaticHotSet>(hot);
      break;
    case 2:
      setting.policy = std::make_shared<RandomAdmission>(setting.slots, 0.3, seed);
      break;
    default:
      setting.policy = make_cache_policy("lfu", setting.rows, setting.slots);
  }
  setting.keeps_reused = seed % 3 > 0;
  setting.evicts_to_buffer = seed / 4 % 2 > 0;
  const int ahead = std::min(static_cast<int>(random() % 5), setting.lookahead - 1);
  if (setting.keeps_reused) setting.horizon = ahead;
  return setting;
}

std::vector<std::vector<std::int64_t>> random_steps(const Setting& setting, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::vector<std::int64_t>> steps(kSteps);
  for (auto& step : steps) {
    const std::uint64_t every = 2 + random() % 4;
    for (std::int64_t row = 0; row < setting.rows; ++row)
      if (random() % every == 0 && static_cast<std::int64_t>(step.size()) < setting.max_rows) step.push_back(row);
    if (random() % 20 == 0) step.clear();
  }
  return steps;
}

// One rank's device and its host rows, which hold versions: each step writes its number plus one into all of its rows.
// What a row's version has to be is a plain dictionary.
class Machine {
 public:
  Machine(EngineClient& client, const Setting& setting, std::uint64_t seed)
      : client_(client), setting_(setting), random_(seed), host_(static_cast<std::size_t>(setting.rows)) {}

  std::int64_t steps() const { return steps_; }
  std::int64_t stayed() const { return stayed_; }
  std::int64_t written_back() const { return written_back_; }
  std::int64_t evicted() const { return evicted_; }

  void run(const std::vector<std::int64_t>& rows) {
    const std::int64_t step = steps_++;
    if (random_() % 25 == 0) drain();
    const StepPlan plan = client_.plan(step);
    check_padding(step);
    serve_write_backs(step);
    client_.wait_gate(step);
    // The slots of the step kBufferSteps before are used again, so that one must have been written back; others may
    // have.
    write_back(step - kBufferSteps + static_cast<std::int64_t>(random_() % kBufferSteps));
    ASSERT_TRUE(std::ranges::equal(plan.rows, rows));
    for (std::size_t i = 0; i < rows.size(); ++i)
      EXPECT_EQ(plan.source[i] == kFromHost ? host(rows[i]) : memory_.at(plan.source[i]), newest_[rows[i]])
          << "row " << rows[i] << " in step " << step;
    evict(step, plan);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      memory_[plan.target[i]] = newest_[rows[i]] = step + 1;
      if (plan.leave[i] == RowDestination::kWriteBackBuffer) {
        EXPECT_GT(plan.target[i], setting_.slots);
        left_.push_back({step, rows[i], plan.target[i]});
        ++written_back_;
      } else {
        EXPECT_EQ(plan.leave[i], RowDestination::kCache);
        EXPECT_NE(plan.target[i], setting_.slots);
        EXPECT_TRUE(setting_.keeps_reused || plan.target[i] < setting_.slots);
        stayed_ += plan.target[i] > setting_.slots;
      }
    }
    client_.publish(step);
  }

  // As a validation or a checkpoint does: the host has all values then, and training goes on as planned.
  void drain() {
    write_back(steps_);
    for (const CachedRow& cached : client_.drain()) host(cached.row) = memory_.at(cached.slot);
    client_.finish_drain();
    for (const auto& [row, version] : newest_) EXPECT_EQ(host(row), version) << "row " << row << " on the host";
  }

 private:
  struct Left {
    std::int64_t step, row, slot;
  };

  std::int64_t& host(std::int64_t row) { return host_[static_cast<std::size_t>(row)]; }

  // All write-backs up to the step's, in order: what lies in the slots then.
  void write_back(std::int64_t step) {
    while (!left_.empty() && left_.front().step <= step) {
      host(left_.front().row) = memory_.at(left_.front().slot);
      left_.pop_front();
    }
  }

  // Rows that leave the cache with the step, from slots of the write-back buffer that its own rows do not need.
  void evict(std::int64_t step, const StepPlan& plan) {
    EXPECT_EQ(plan.evicted.size(), setting_.evicts_to_buffer && setting_.policy ? plan.rows.size() : 0);
    for (std::size_t i = 0; i < plan.evicted.size(); ++i) {
      if (plan.evicted[i] < 0) continue;
      EXPECT_LT(plan.target[i], setting_.slots);
      const std::int64_t slot = first_buffer_slot(step) + static_cast<std::int64_t>(i);
      memory_[slot] = memory_.at(plan.target[i]);
      left_.push_back({step, plan.evicted[i], slot});
      ++evicted_;
    }
  }

  std::int64_t first_buffer_slot(std::int64_t step) {
    std::int64_t first;
    std::memcpy(&first, client_.plan_cell(step).data() + client_.plan_fields().first_buffer_slot, sizeof(first));
    EXPECT_EQ(first, setting_.slots + 1 + step % kBufferSteps * setting_.max_rows);
    return first;
  }

  // After all write-backs but the last step's.
  void serve_write_backs(std::int64_t step) {
    for (auto requests = client_.write_backs(step); !requests.empty(); requests = client_.write_backs(step)) {
      EXPECT_FALSE(setting_.evicts_to_buffer);
      write_back(step - 2);
      for (const WriteBack& request : requests) host(request.row) = memory_.at(request.slot);
      client_.publish_write_backs(static_cast<std::int64_t>(requests.size()));
    }
  }

  void check_padding(std::int64_t step) {
    const auto cell = client_.plan_cell(step);
    const PlanFields fields = client_.plan_fields();
    const auto count = static_cast<std::int64_t>(client_.plan(step).rows.size());
    const auto at = [&]<class T>(std::int64_t begin, std::int64_t i, T) {
      T value;
      std::memcpy(&value, cell.data() + begin + i * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
      return value;
    };
    EXPECT_EQ(at(fields.published, 0, std::int64_t{}), step + 1);
    for (std::int64_t i = count; i < client_.max_rows(); ++i) {
      EXPECT_EQ(at(fields.rows, i, std::int64_t{}), 0);
      EXPECT_EQ(at(fields.source, i, std::int32_t{}), setting_.slots);
      EXPECT_EQ(at(fields.leave, i, RowDestination{}), RowDestination::kCache);
      EXPECT_EQ(at(fields.target, i, std::int64_t{}), setting_.slots);
      EXPECT_EQ(fields.evicted < 0 ? -1 : at(fields.evicted, i, std::int64_t{}), -1);
    }
  }

  EngineClient& client_;
  const Setting setting_;
  std::mt19937_64 random_;
  std::int64_t steps_ = 0, stayed_ = 0, written_back_ = 0, evicted_ = 0;  // all but the first: rows, of all steps
  std::vector<std::int64_t> host_;                       // versions of host rows
  std::map<std::int64_t, std::int64_t> memory_, newest_;  // versions by slot; the true ones by row
  std::deque<Left> left_;                                // on their way, in order
};

struct Rows {
  std::int64_t stayed, written_back, evicted;
};

// Ranks run the same steps one after the other, or some of them ahead of others. Returns what became of a rank's rows.
Rows train(const Setting& setting, const std::vector<std::vector<std::int64_t>>& steps, std::uint64_t seed) {
  const RowLayout layout = RowLayout::for_dim(1);
  std::vector<float> table(static_cast<std::size_t>(setting.rows * layout.stride));
  EngineConfig config;
  config.ranks = setting.ranks;
  config.same_steps = true;
  config.lookahead = setting.lookahead;
  config.planner_threads = setting.threads;
  config.horizon = setting.horizon;
  config.keeps_reused = setting.keeps_reused;
  config.evicts_to_buffer = setting.evicts_to_buffer;
  config.mode = FlushMode::kDirect;
  config.write_back_steps = kBufferSteps;
  config.layout = layout;
  config.rows = setting.rows;
  config.host_rows = table.data();
  config.max_rows_per_step = setting.max_rows;
  config.update = std::make_shared<RowAdagradUpdate>(0.1f);
  if (setting.policy) config.caches = {setting.policy};
  Engine engine(config);
  std::mt19937_64 random(seed);
  std::vector<Machine> machines;
  for (int r = 0; r < setting.ranks; ++r) machines.emplace_back(engine.client(r), setting, random());
  std::vector<std::int64_t> registered(static_cast<std::size_t>(setting.ranks));
  const auto slowest = [&] { return std::ranges::min_element(machines, {}, &Machine::steps)->steps(); };
  while (slowest() < kSteps) {
    const auto r = static_cast<std::size_t>(random() % machines.size());
    for (std::size_t each = 0; each < machines.size(); ++each)
      for (auto& next = registered[each]; next < kSteps && next <= slowest() + setting.lookahead; ++next)
        engine.client(static_cast<int>(each)).register_step(next, steps[static_cast<std::size_t>(next)], {});
    if (machines[r].steps() < registered[r]) machines[r].run(steps[static_cast<std::size_t>(machines[r].steps())]);
  }
  for (Machine& machine : machines) machine.drain();
  const std::int64_t sent = engine.statistics().ranks[0].write_backs_sent;
  EXPECT_EQ(setting.evicts_to_buffer ? sent : 0, machines[0].evicted());
  return {machines[0].stayed(), machines[0].written_back(), machines[0].evicted()};
}

TEST(WriteBackBuffer, EveryStepReadsTheNewestValues) {
  std::int64_t evicted = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const Setting setting = random_setting(seed);
    evicted += train(setting, random_steps(setting, seed), seed).evicted;
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
  EXPECT_GT(evicted, 1000);
}

// Of a policy in parts, by threads.
TEST(WriteBackBuffer, RowsThatLargeCachesEvictAreWrittenBackWithTheStep) {
  Setting setting;
  setting.rows = 9000;
  setting.max_rows = 5000;
  setting.slots = 1000;
  setting.evicts_to_buffer = true;
  setting.threads = 3;
  setting.policy = make_cache_policy("lfu", setting.rows, setting.slots, 4);
  EXPECT_GT(train(setting, random_steps(setting, 5), 5).evicted, 1000);
}

TEST(WriteBackBuffer, RowsThatThreadsLookUp) {
  Setting setting;
  setting.rows = 9000;
  setting.max_rows = 5000;
  setting.threads = 3;
  setting.slots = 1000;
  std::vector<std::int64_t> hot(1000);
  for (std::size_t i = 0; i < hot.size(); ++i) hot[i] = static_cast<std::int64_t>(3 * i);
  for (std::uint64_t seed = 0; seed < 2; ++seed) {
    setting.keeps_reused = seed;
    setting.horizon = seed ? 2 : 0;
    setting.policy = seed ? std::shared_ptr<CachePolicy>(std::make_shared<RandomAdmission>(1000, 0.3, seed))
                          : std::make_shared<StaticHotSet>(hot);
    train(setting, random_steps(setting, seed), seed);
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
}

// A value stays if one of the next steps uses its row, as many as there are slots for, and as are seen: by a plain
// count.
TEST(WriteBackBuffer, ValuesStayUntilTheirRowIsUsedAgain) {
  for (const int horizon : {0, 1, 2, 3, 5}) {
    Setting setting;
    setting.slots = 0;
    setting.lookahead = 8;
    setting.keeps_reused = true;
    setting.horizon = horizon;
    const auto steps = random_steps(setting, 7);
    Rows expected{};  // without a cache
    for (std::size_t step = 0; step < steps.size(); ++step)
      for (const std::int64_t row : steps[step]) {
        bool again = false;
        for (std::size_t next = step + 1; next < steps.size() && next <= step + std::min(horizon, kBufferSteps); ++next)
          again |= std::ranges::count(steps[next], row) > 0;
        ++(again ? expected.stayed : expected.written_back);
      }
    const Rows found = train(setting, steps, 7);
    EXPECT_EQ(found.stayed, expected.stayed) << horizon;
    EXPECT_EQ(found.written_back, expected.written_back) << horizon;
    EXPECT_EQ(found.stayed > 0, horizon > 0);
  }
}

// They would be of no use: a value that goes through staging is not the rank's any more.
TEST(WriteBackBuffer, AreForReadsThatFollowStores) {
  std::vector<float> table(static_cast<std::size_t>(10 * RowLayout::for_dim(1).stride));
  EngineConfig config;
  config.write_back_steps = kBufferSteps;
  config.layout = RowLayout::for_dim(1);
  config.rows = 10;
  config.host_rows = table.data();
  config.max_rows_per_step = 4;
  config.update = std::make_shared<RowAdagradUpdate>(0.1f);
  const std::vector<std::int64_t> rows{1, 2};
  Engine engine(config);
  engine.client(0).register_step(0, rows, {});
  const StepPlan plan = engine.client(0).plan(0);
  EXPECT_EQ(plan.leave[0], RowDestination::kValue);
  EXPECT_EQ(plan.source[1], kFromHost);
  config.write_back_steps = -1;
  EXPECT_THROW(Engine{config}, std::invalid_argument);
  config.write_back_steps = kBufferSteps;
  config.horizon = config.lookahead;
  EXPECT_THROW(Engine{config}, std::invalid_argument);
}

}  // namespace
}  // namespace frugal::testing::write_back_buffer
