// Runs a workload on the real engine, each rank a thread, and compares with the oracle to the bit.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "cache/policies.h"
#include "cache/static_hot_set.h"
#include "engine/engine.h"
#include "engine/segment.h"
#include "tests/engine/random_admission.h"
#include "tests/engine/workload.h"

namespace frugal::testing {

struct Outcome {
  std::int64_t stale_reads = 0;
  std::int64_t wrong_rows = 0;  // of the drained table
  std::string error;
  EngineStatistics statistics;

  bool right() const { return stale_reads == 0 && wrong_rows == 0 && error.empty(); }
};

struct RunOptions {
  std::vector<std::int64_t> drain_after;                           // steps after which all ranks drain
  bool compare_drains = true;                                      // with the oracle's table then (needs initial_table)
  std::function<void(int rank, std::int64_t step)> before_step{};  // delays, or throws
  std::chrono::milliseconds patience{600'000};                     // then the run is failed as stuck
};

inline std::shared_ptr<CachePolicy> make_cache(const Shape& shape, int rank) {
  const unsigned seed = shape.seed * 8 + static_cast<unsigned>(rank);
  if (shape.caching == Caching::kLfu) return make_cache_policy("lfu", shape.rows, shape.slots);
  if (shape.caching == Caching::kRandom) return std::make_shared<RandomAdmission>(shape.slots, shape.reject, seed);
  std::vector<std::int64_t> hot(static_cast<std::size_t>(shape.rows));
  std::iota(hot.begin(), hot.end(), 0);
  std::shuffle(hot.begin(), hot.end(), std::mt19937(seed));
  return std::make_shared<StaticHotSet>(std::span(hot).first(static_cast<std::size_t>(shape.slots)));
}

inline EngineConfig engine_config(const Shape& shape, const RowLayout& layout, float* table,
                                  std::shared_ptr<const RowUpdate> update) {
  EngineConfig config;
  config.ranks = shape.ranks;
  config.lookahead = shape.lookahead;
  config.flush_threads = shape.flush_threads;
  config.mode = shape.mode;
  config.layout = layout;
  config.rows = shape.rows;
  config.host_rows = table;
  config.max_rows_per_step = std::max(shape.batch, 1);
  config.entries = shape.entries;
  config.staging_bytes =
      shape.staging_bytes ? shape.staging_bytes : 8 * layout.bytes() * std::max(shape.batch, 1) * shape.ranks;
  config.horizon = shape.horizon;
  config.update = std::move(update);
  if (shape.slots > 0)
    for (int r = 0; r < shape.ranks; ++r) config.caches.push_back(make_cache(shape, r));
  return config;
}

inline std::int64_t count_wrong_rows(std::span<const float> table, std::span<const float> expected,
                                     const RowLayout& layout) {
  std::int64_t wrong = 0;
  for (std::size_t at = 0; at < table.size(); at += static_cast<std::size_t>(layout.stride))
    wrong += !same_record(table.data() + at, expected.data() + at, layout.dim);
  return wrong;
}

// Everything that one rank does in a run: registers ahead, checks what it reads, trains to the end and drains.
inline void train_rank(EngineClient& client, const Shape& shape, const Trace& trace, const Oracle& oracle, float* table,
                       std::shared_ptr<const RowUpdate> update, std::atomic<std::int64_t>& stale,
                       const std::function<void(int, std::int64_t)>& before_step,
                       const std::function<void(std::int64_t, ReferenceExecutor&)>& after_step) {
  const RowLayout layout = RowLayout::for_dim(shape.dim);
  ReferenceExecutor executor(client, layout, shape.entries, table, shape.slots, std::move(update),
                             [&](std::int64_t step, int r, int entry, std::int64_t row, int k, const float* value,
                                 float* g) { test_gradient(step, r, entry, row, k, value, g, layout.dim); });
  executor.set_read([&](std::int64_t step, std::int64_t row, const float* record) {
    stale += !same_record(record, oracle.before[static_cast<std::size_t>(step)].at(row).data(), layout.dim);
  });
  const auto rank = static_cast<std::size_t>(client.rank());
  const auto steps = static_cast<std::int64_t>(trace.size());
  std::int64_t registered = 0;
  for (std::int64_t s = 0; s < steps; ++s) {
    for (; registered < steps && registered <= s + shape.lookahead; ++registered) {
      const StepWork& work = trace[static_cast<std::size_t>(registered)][rank];
      client.register_step(registered, work.rows, work.occurrences);
    }
    if (before_step) before_step(client.rank(), s);
    executor.step(s, trace[static_cast<std::size_t>(s)][rank]);
    if ((s + client.rank()) % 2 == 0) executor.serve_write_backs(s + 1);  // early, or only before the next gate
    if (after_step) after_step(s, executor);
  }
  executor.drain();
}

// The oracle's table after the first `steps` steps.
inline std::vector<float> table_after(const Shape& shape, const Trace& trace, std::int64_t steps,
                                      const RowLayout& layout, const RowUpdate& update) {
  return Oracle(shape, Trace(trace.begin(), trace.begin() + steps), layout, update).table;
}

// start: the table to begin with, which is left as the run leaves it; nullptr: initial_table.
inline Outcome run_workload(const Shape& shape, const Trace& trace, const RunOptions& options = {},
                            std::vector<float>* start = nullptr) {
  const RowLayout layout = RowLayout::for_dim(shape.dim);
  const auto update = std::make_shared<RowAdagradUpdate>(0.1f);
  std::vector<float> table = start ? *start : initial_table(shape, layout);
  const Oracle oracle(shape, trace, layout, *update, table);
  Outcome outcome;
  std::atomic<std::int64_t> stale{0}, wrong{0};
  std::atomic<int> running{shape.ranks};
  Engine engine(engine_config(shape, layout, table.data(), update));
  const auto drain_and_compare = [&](std::int64_t step, ReferenceExecutor& executor, int rank) {
    if (std::find(options.drain_after.begin(), options.drain_after.end(), step) == options.drain_after.end()) return;
    executor.drain();
    if (rank == 0 && options.compare_drains)
      wrong += count_wrong_rows(table, table_after(shape, trace, step + 1, layout, *update), layout);
    executor.drain();  // nobody goes on before rank 0 has compared
  };
  std::vector<std::thread> threads;
  for (int rank = 0; rank < shape.ranks; ++rank)
    threads.emplace_back([&, rank] {
      try {
        train_rank(
            engine.client(rank), shape, trace, oracle, table.data(), update, stale, options.before_step,
            [&, rank](std::int64_t step, ReferenceExecutor& executor) { drain_and_compare(step, executor, rank); });
      } catch (const std::exception& error) {
        engine.client(rank).fail(error.what());
      }
      --running;
    });
  const auto deadline = std::chrono::steady_clock::now() + options.patience;
  while (running > 0) {
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    if (std::chrono::steady_clock::now() > deadline) engine.segment()->fail("stuck");
  }
  for (std::thread& thread : threads) thread.join();
  outcome.stale_reads = stale;
  outcome.error = engine.segment()->error();
  outcome.wrong_rows = wrong + (outcome.error.empty() ? count_wrong_rows(table, oracle.table, layout) : 0);
  outcome.statistics = engine.statistics();
  if (start) *start = table;
  return outcome;
}

}  // namespace frugal::testing
