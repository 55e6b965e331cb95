// Flushed rows and bytes per second against flush threads, and as share of what the same threads reach by memcpy of
// large blocks; the floor between the two is the same row copies without an engine. Prints one JSON object.
//
//   engine_flush [--dim 400] [--rows 200000] [--steps 400] [--threads 1]
#include <atomic>
#include <cstdio>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <thread>

#include "benchmarks/engine/timing.h"
#include "engine/engine.h"

namespace frugal::benchmarks {
namespace {

constexpr std::int64_t kRowsPerStep = 3000;

template <class Body>
double timed(int threads, Body body) {
  std::vector<std::thread> workers;
  const double start = now();
  for (int t = 0; t < threads; ++t) workers.emplace_back([&body, t] { body(t); });
  for (std::thread& worker : workers) worker.join();
  return now() - start;
}

// Bytes copied per second, all threads together, blocks far larger than any cache.
double memcpy_rate(int threads) {
  constexpr std::size_t kBytes = std::size_t{128} << 20;
  std::vector<std::vector<char>> from(static_cast<std::size_t>(threads)), to(static_cast<std::size_t>(threads));
  for (int t = 0; t < threads; ++t) {
    from[static_cast<std::size_t>(t)].assign(kBytes, 1);
    to[static_cast<std::size_t>(t)].assign(kBytes, 2);
  }
  std::vector<double> rates;
  for (int repeat = 0; repeat < 7; ++repeat)
    rates.push_back(static_cast<double>(kBytes) * threads / timed(threads, [&](int t) {
                      std::memcpy(to[static_cast<std::size_t>(t)].data(), from[static_cast<std::size_t>(t)].data(),
                                  kBytes);
                    }));
  return median(rates);
}

}  // namespace
}  // namespace frugal::benchmarks

int main(int argc, char** argv) {
  using namespace frugal;
  using namespace frugal::benchmarks;
  const int threads = static_cast<int>(number(argc, argv, "--threads", 1));
  const std::int64_t rows = number(argc, argv, "--rows", 200'000), steps = number(argc, argv, "--steps", 400);
  const RowLayout layout = RowLayout::for_dim(number(argc, argv, "--dim", 400));
  std::vector<float> table(static_cast<std::size_t>(rows * layout.stride), 1.0f);
  // Each step takes the next rows of a permutation, so nothing is due soon and only throughput matters.
  std::vector<std::int64_t> order(static_cast<std::size_t>(rows));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937_64(3));
  const double row_bytes = static_cast<double>(layout.dim + 1) * 4;
  std::vector<double> rates, busy_rates, floors;
  for (int repeat = 0; repeat < 5; ++repeat) {
    EngineConfig config;
    config.lookahead = 10;
    config.flush_threads = threads;
    config.layout = layout;
    config.rows = rows;
    config.host_rows = table.data();
    config.max_rows_per_step = kRowsPerStep;
    config.staging_bytes = 24 * kRowsPerStep * layout.bytes();
    config.update = std::make_shared<RowAdagradUpdate>(0.1f);
    Engine engine(config);
    RankPort& port = engine.port(0);
    for (float& x : port.staging()) x = 2.0f;
    std::vector<std::int64_t> step_rows;
    std::int64_t registered = 0;
    double start = 0;
    for (std::int64_t s = 0; s < steps; ++s) {
      for (; registered < steps && registered <= s + config.lookahead; ++registered) {
        const std::int64_t first = registered * kRowsPerStep % (rows - kRowsPerStep);
        step_rows.assign(order.begin() + first, order.begin() + first + kRowsPerStep);
        std::sort(step_rows.begin(), step_rows.end());
        port.register_step(registered, step_rows, {});
      }
      if (s == 0) start = now();
      port.plan(s);
      port.write_backs(s);
      port.wait_gate(s);
      port.publish(s);
    }
    port.drain();
    const double seconds = now() - start;
    port.finish_drain();
    double busy = 0, flushed = 0;
    for (const FlushWorkerStatistics& worker : engine.statistics().workers) {
      busy += static_cast<double>(worker.busy_nanoseconds) * 1e-9;
      flushed += static_cast<double>(worker.flushed_rows);
    }
    rates.push_back(flushed / seconds);
    busy_rates.push_back(flushed / busy);
    // The floor: the same copies by as many threads, and nothing else.
    const std::span<float> staging = port.staging();
    const double copied = timed(threads, [&](int t) {
      const std::int64_t slots = static_cast<std::int64_t>(staging.size()) / layout.stride;
      for (std::int64_t i = t; i < steps * kRowsPerStep; i += threads)
        std::memcpy(table.data() + order[static_cast<std::size_t>(i % rows)] * layout.stride,
                    staging.data() + i % slots * layout.stride, static_cast<std::size_t>(row_bytes));
    });
    floors.push_back(static_cast<double>(steps * kRowsPerStep) / copied);
  }
  const double bandwidth = memcpy_rate(threads);
  const double rate = median(rates), busy = median(busy_rates), floor = median(floors);
  std::printf(
      "{\"threads\": %d, \"dim\": %ld, \"rows_per_s\": %.4g, \"gb_per_s\": %.4g, \"rows_per_busy_s\": %.4g, "
      "\"floor_rows_per_s\": %.4g, \"memcpy_gb_per_s\": %.4g, \"bandwidth_share\": %.4g, \"share_of_floor\": %.4g}\n",
      threads, static_cast<long>(layout.dim), rate, rate * row_bytes * 1e-9, busy, floor, bandwidth * 1e-9,
      rate * row_bytes / bandwidth, rate / floor);
}
