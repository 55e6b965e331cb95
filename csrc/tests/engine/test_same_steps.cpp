// Ranks that run the same steps, each on columns of its own, by one plan: each trains as if it were alone.
#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "tests/at_once.h"
#include "tests/engine/process_ranks.h"
#include "tests/engine/random_admission.h"
#include "tests/engine/run_workload.h"

namespace frugal::testing::same_steps {
namespace {

Shape random_shape(unsigned seed) {
  Shape shape = testing::random_shape(seed);
  shape.ranks = 1;  // of the trace: all do the same
  shape.steps = 80;
  shape.mode = FlushMode::kDirect;
  return shape;
}

EngineConfig config_of(const Shape& shape, int ranks, std::vector<float>& table,
                       std::shared_ptr<const RowUpdate> update) {
  EngineConfig config = engine_config(shape, RowLayout::for_dim(shape.dim), table.data(), std::move(update));
  config.ranks = ranks;
  config.same_steps = true;
  return config;
}

// Gradients of rank r's own columns are those of rank r.
std::vector<float> expected_table(const Shape& shape, Trace trace, int rank, const RowUpdate& update) {
  const StepWork none;
  for (auto& step : trace) {
    const StepWork work = step[0];
    step.assign(static_cast<std::size_t>(rank) + 1, none);
    step.back() = work;
  }
  Shape ranks = shape;
  ranks.ranks = rank + 1;
  return Oracle(ranks, trace, RowLayout::for_dim(shape.dim), update).table;
}

void train_columns(EngineClient& client, const Shape& shape, const Trace& trace, std::vector<float>& table,
                   std::shared_ptr<const RowUpdate> update, const std::function<void(int, std::int64_t)>& before_step) {
  const RowLayout layout = RowLayout::for_dim(shape.dim);
  ReferenceExecutor executor(client, layout, shape.entries, table.data(), shape.slots, std::move(update),
                             [&](std::int64_t step, int r, int entry, std::int64_t row, int k, const float* value,
                                 float* g) { test_gradient(step, r, entry, row, k, value, g, layout.dim); });
  const auto steps = static_cast<std::int64_t>(trace.size());
  std::int64_t registered = 0;
  for (std::int64_t s = 0; s < steps; ++s) {
    for (; registered < steps && registered <= s + shape.lookahead; ++registered)
      client.register_step(registered, trace[static_cast<std::size_t>(registered)][0].rows, {});
    if (before_step) before_step(client.rank(), s);
    executor.step(s, trace[static_cast<std::size_t>(s)][0]);
    if ((s + client.rank()) % 2 == 0) executor.serve_write_backs(s + 1);
    if (client.rank() == 0 && s % 31 == 7) executor.drain();  // its own affair
  }
  executor.drain();
}

TEST(SameSteps, EachRankTrainsAsIfItWereAlone) {
  const auto update = std::make_shared<RowAdagradUpdate>(0.1f);
  for (unsigned seed = 0; seed < 40; ++seed) {
    const Shape shape = random_shape(seed);
    const Trace trace = random_trace(shape);
    const int ranks = 1 + static_cast<int>(seed % 4);
    const RowLayout layout = RowLayout::for_dim(shape.dim);
    std::vector<std::vector<float>> tables(static_cast<std::size_t>(ranks), initial_table(shape, layout));
    Engine engine(config_of(shape, ranks, tables[0], update));
    for (int r = 0; r < ranks; ++r) EXPECT_EQ(engine.client(r).ranks(), 1);
    at_once(ranks, [&](int r) {
      try {
        train_columns(engine.client(r), shape, trace, tables[static_cast<std::size_t>(r)], update,
                      [&](int rank, std::int64_t step) {  // one rank after the other is the slow one
                        if (seed % 2 && (step / 20) % ranks == rank)
                          std::this_thread::sleep_for(std::chrono::microseconds(200));
                      });
      } catch (const std::exception& error) {
        engine.segment()->fail(error.what());
      }
    });
    ASSERT_EQ(engine.segment()->error(), "") << "seed " << seed;
    for (int r = 0; r < ranks; ++r)
      EXPECT_EQ(count_wrong_rows(tables[static_cast<std::size_t>(r)], expected_table(shape, trace, r, *update), layout),
                0)
          << "seed " << seed << ", rank " << r << " of " << ranks;
    EXPECT_EQ(engine.statistics().planned_steps, shape.steps);
  }
}

// The plan of a step stays until the last rank has published it, however far the others are.
TEST(SameSteps, ASlowRankFindsItsPlan) {
  Shape shape = random_shape(1);
  shape.lookahead = 2;
  shape.rows = 200;
  shape.batch = 40;
  shape.slots = 4;
  shape.horizon = 0;
  const Trace trace = random_trace(shape);
  const auto update = std::make_shared<RowAdagradUpdate>(0.1f);
  std::vector<float> table = initial_table(shape, RowLayout::for_dim(shape.dim));
  Engine engine(config_of(shape, 2, table, update));
  EngineClient &fast = engine.client(0), &slow = engine.client(1);
  const auto serve = [](EngineClient& client, std::int64_t step) {
    for (auto requests = client.write_backs(step); !requests.empty(); requests = client.write_backs(step))
      client.publish_write_backs(static_cast<std::int64_t>(requests.size()));
  };
  const auto rows = [&](std::int64_t step) -> const std::vector<std::int64_t>& {
    return trace[static_cast<std::size_t>(step)][0].rows;
  };
  for (std::int64_t s = 0; s < 3; ++s) fast.register_step(s, rows(s), {}), slow.register_step(s, rows(s), {});
  for (std::int64_t s = 0; s < 3; ++s) {
    fast.plan(s);
    serve(fast, s);
    fast.wait_gate(s);
    fast.publish(s);
  }
  std::atomic<bool> went_on{false};
  std::thread registers([&] {
    fast.register_step(3, rows(3), {});  // waits: rank 1 has not run step 0
    went_on = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(went_on);
  const StepPlan plan = slow.plan(0);
  EXPECT_TRUE(std::ranges::equal(plan.rows, rows(0)));
  serve(slow, 0);
  slow.wait_gate(0);
  slow.publish(0);
  registers.join();
  EXPECT_TRUE(went_on);
  EXPECT_TRUE(std::ranges::equal(slow.plan(1).rows, rows(1)));
}

// Rank 1 is a process, which is killed, or leaves early: rank 0 hears of it and does not hang.
TEST(SameSteps, ARankThatIsGoneStopsTheOthers) {
  for (const bool killed : {true, false}) {
    Shape shape = random_shape(2);
    shape.steps = 1 << 14;
    shape.batch = 6;
    const Trace trace = random_trace(shape);
    const auto update = std::make_shared<RowAdagradUpdate>(0.1f);
    SharedMemory memory(256);
    auto& ready = *new (memory.data()) std::atomic<int>(0);
    char* const path = static_cast<char*>(memory.data()) + 64;
    const pid_t child = fork();  // before there are threads
    if (child == 0) {
      while (ready == 0) usleep(200);
      try {
        EngineClient client(Segment::attach(path), 1);
        std::vector<float> table = initial_table(shape, RowLayout::for_dim(shape.dim));
        train_columns(client, shape, trace, table, update, [&](int, std::int64_t step) {
          if (step < 20) return;
          if (!killed) throw std::runtime_error("leaves");
          ready = 2;
          while (true) pause();
        });
      } catch (const std::exception&) {
      }
      _exit(0);
    }
    std::vector<float> table = initial_table(shape, RowLayout::for_dim(shape.dim));
    Engine engine(config_of(shape, 2, table, update), true);
    std::strncpy(path, engine.segment()->path().c_str(), 64);
    ready = 1;
    std::thread killer([&] {
      while (killed && ready != 2) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      if (killed) kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
    });
    try {
      train_columns(engine.client(0), shape, trace, table, update, {});
      ADD_FAILURE() << "no error";
    } catch (const EngineError& error) {
      EXPECT_NE(std::string(error.what()).find("Rank 1"), std::string::npos) << error.what();
    }
    killer.join();
  }
}

TEST(SameSteps, NeedsStoresIntoHostRowsAndOnePolicy) {
  const Shape shape = random_shape(0);
  const auto update = std::make_shared<RowAdagradUpdate>(0.1f);
  std::vector<float> table = initial_table(shape, RowLayout::for_dim(shape.dim));
  EngineConfig config = config_of(shape, 2, table, update);
  config.mode = FlushMode::kP2F;
  EXPECT_THROW(Engine{config}, std::invalid_argument);
  config = config_of(shape, 2, table, update);
  config.mode = FlushMode::kSync;
  EXPECT_THROW(Engine{config}, std::invalid_argument);
  config = config_of(shape, 2, table, update);
  config.caches.assign(2, std::make_shared<RandomAdmission>(4, 0.3, 1));
  EXPECT_THROW(Engine{config}, std::invalid_argument);
}

}  // namespace
}  // namespace frugal::testing::same_steps
