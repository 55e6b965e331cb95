// Stall at the gate, p2f against sync, on the access pattern of FB15k or of Freebase, with the trainer's compute
// simulated by a sleep (a GPU computes; the cores are the engine's). Prints one JSON object.
//
//   engine_stall --trace fb15k|freebase [--edges FILE] [--dim 400] [--steps 300] [--flush_threads 1] [--lookahead 10]
//
// The rank does what a trainer with a GPU does on the host: register ahead, take the plan, wait at the gate, publish.
// Rows are brought home for real. Stall is all the time inside write_backs (room in staging) and wait_gate. Both modes
// run with the same caches: none, and 10 % of the rows that the trace touches (5 % too), for the rows that are used
// next (next_use) or that the next step uses again (reuse).
#include <cstdio>
#include <memory>
#include <thread>

#include "benchmarks/engine/sparse_table.h"
#include "benchmarks/engine/timing.h"
#include "benchmarks/engine/traces.h"
#include "cache/scored_policy.h"
#include "engine/engine.h"
#include "engine/simple_policies.h"

namespace frugal::benchmarks {
namespace {

std::int64_t anonymous_bytes() {
  std::FILE* file = std::fopen("/proc/self/status", "r");
  char line[256];
  long kilobytes = 0;
  while (file != nullptr && std::fgets(line, sizeof line, file) != nullptr)
    if (std::sscanf(line, "RssAnon: %ld kB", &kilobytes) == 1) break;
  if (file != nullptr) std::fclose(file);
  return kilobytes * 1024;
}

struct Result {
  double stall = 0;          // seconds per step
  double step = 0;           // seconds per step, compute included
  double stalled_share = 0;  // of the steps that stall for more than 5 microseconds
  double hit_share = 0;      // of the rows read
  double flushed = 0;        // rows per step
  double due_next = 0;       // of them that the very next step reads
  double staging = 0;        // seconds per step of the stall that went into waiting for room in staging
  double write_backs = 0;    // per step
  double planning = 0;       // seconds per step, in the planner's thread
  std::int64_t memory = 0;   // bytes of the process's own memory that the engine and its policy took
};

Result run(const RowTrace& trace, std::int64_t rows, const RowLayout& layout, float* table, FlushMode mode,
           const std::string& policy, std::int64_t slots, int flush_threads, int lookahead, double compute) {
  const std::int64_t memory_before = anonymous_bytes();
  EngineConfig config;
  config.lookahead = lookahead;
  config.flush_threads = flush_threads;
  config.mode = mode;
  config.layout = layout;
  config.rows = rows;
  config.host_rows = table;
  config.max_rows_per_step = 2 * kPositives + kNegatives;
  config.staging_bytes = 16 * config.max_rows_per_step * layout.bytes();
  config.update = std::make_shared<RowAdagradUpdate>(0.1f);
  if (slots > 0) {
    if (policy == "next_use")
      config.caches = {std::make_shared<ScoredPolicy>(rows, slots, Eviction::kNextUse)};
    else
      config.caches = {std::make_shared<ReuseWindow>(slots, 1)};
    config.horizon = lookahead / 2;
  }
  Engine engine(config);
  RankPort& port = engine.port(0);
  const auto steps = static_cast<std::int64_t>(trace.size());
  const std::int64_t warm = steps / 4;  // the cache fills
  std::int64_t registered = 0;
  double stall = 0, start = now(), stalled = 0;
  RankStatistics before{};
  const auto register_up_to = [&](std::int64_t last) {
    for (; registered < steps && registered <= last; ++registered)
      port.register_step(registered, trace[static_cast<std::size_t>(registered)], {});
  };
  register_up_to(lookahead);
  for (std::int64_t s = 0; s < steps; ++s) {
    if (s == warm) {
      stall = stalled = 0;
      start = now();
      before = port.statistics();
    }
    port.plan(s);
    const double arrived = now();
    for (auto requests = port.write_backs(s); !requests.empty(); requests = port.write_backs(s))
      port.publish_write_backs(static_cast<std::int64_t>(requests.size()));
    port.wait_gate(s);
    const double waited = now() - arrived;
    stall += waited;
    stalled += waited > 5e-6;
    register_up_to(s + lookahead);  // while the device computes, so that planning does not compete with the gate
    std::this_thread::sleep_for(std::chrono::duration<double>(compute));
    // With the step's kernels go the write-backs that may leave by then.
    for (auto requests = port.write_backs(s + 1); !requests.empty(); requests = port.write_backs(s + 1))
      port.publish_write_backs(static_cast<std::int64_t>(requests.size()));
    port.publish(s);
  }
  Result result;
  const double measured = static_cast<double>(steps - warm);
  result.step = (now() - start) / measured;
  result.stall = stall / measured;
  result.stalled_share = stalled / measured;
  const RankStatistics after = port.statistics();
  result.hit_share = static_cast<double>(after.cache_reads - before.cache_reads) /
                     static_cast<double>(after.cache_reads + after.host_reads - before.cache_reads - before.host_reads);
  result.staging =
      static_cast<double>(after.staging_stall_nanoseconds - before.staging_stall_nanoseconds) * 1e-9 / measured;
  result.write_backs = static_cast<double>(after.write_backs_sent - before.write_backs_sent) / measured;
  const EngineStatistics statistics = engine.statistics();
  for (const FlushWorkerStatistics& worker : statistics.workers) {
    result.flushed += static_cast<double>(worker.flushed_rows) / static_cast<double>(steps);
    result.due_next += static_cast<double>(worker.urgent) / static_cast<double>(steps);
  }
  result.planning = static_cast<double>(statistics.planning_nanoseconds) * 1e-9 / static_cast<double>(steps);
  result.memory = anonymous_bytes() - memory_before;
  return result;
}

void print(const char* name, const Result& r) {
  std::printf(
      "\"%s\": {\"stall_us\": %.4g, \"staging_stall_us\": %.4g, \"step_us\": %.5g, \"stalled_share\": %.4g, "
      "\"hit_share\": %.4g, "
      "\"flushed_rows\": %.5g, \"due_next\": %.5g, \"write_backs\": %.5g, \"planning_us\": %.4g, \"memory_bytes\": "
      "%ld}",
      name, r.stall * 1e6, r.staging * 1e6, r.step * 1e6, r.stalled_share, r.hit_share, r.flushed, r.due_next,
      r.write_backs, r.planning * 1e6, static_cast<long>(r.memory));
}

}  // namespace
}  // namespace frugal::benchmarks

int main(int argc, char** argv) {
  using namespace frugal;
  using namespace frugal::benchmarks;
  const bool fb15k = option(argc, argv, "--trace", "fb15k") == "fb15k";
  const std::string edges = option(argc, argv, "--edges", "");
  const std::int64_t rows = fb15k ? 14'951 : 86'054'151;
  const std::int64_t steps = number(argc, argv, "--steps", 300);
  const int threads = static_cast<int>(number(argc, argv, "--flush_threads", 1));
  const int lookahead = static_cast<int>(number(argc, argv, "--lookahead", 10));
  const RowLayout layout = RowLayout::for_dim(number(argc, argv, "--dim", 400));
  const RowTrace trace =
      !edges.empty() ? trace_of_edges(edges, rows, steps) : zipf_trace(rows, fb15k ? 0.3 : 0.8, steps);
  const SparseTable table(rows, layout);
  std::vector<char> seen(static_cast<std::size_t>(rows));
  std::int64_t touched = 0;
  for (const auto& step : trace)
    for (const std::int64_t row : step) {
      touched += !seen[static_cast<std::size_t>(row)];
      seen[static_cast<std::size_t>(row)] = 1;
      for (std::int64_t i = 0; i < layout.stride; i += 512)
        table.data()[row * layout.stride + i] = 1;  // its pages exist
    }
  seen = {};
  std::printf(
      "{\"trace\": \"%s\", \"real\": %s, \"rows\": %ld, \"touched\": %ld, \"steps\": %ld, \"flush_threads\": %d, "
      "\"lookahead\": %d, \"runs\": [",
      fb15k ? "fb15k" : "freebase", edges.empty() ? "false" : "true", static_cast<long>(rows),
      static_cast<long>(touched), static_cast<long>(steps), threads, lookahead);
  bool first = true;
  const std::pair<std::string, double> caches[] = {{"none", 0}, {"next_use", 0.10}, {"reuse", 0.05}, {"reuse", 0.10}};
  for (const auto& [policy, share] : caches)
    for (const double compute : {1e-3, 3e-3, 10e-3}) {
      const auto slots = static_cast<std::int64_t>(share * static_cast<double>(touched));
      const Result p2f =
          run(trace, rows, layout, table.data(), FlushMode::kP2F, policy, slots, threads, lookahead, compute);
      const Result sync =
          run(trace, rows, layout, table.data(), FlushMode::kSync, policy, slots, threads, lookahead, compute);
      std::printf("%s\n  {\"cache\": \"%s\", \"cache_share\": %.2f, \"cache_slots\": %ld, \"compute_ms\": %.0f, ",
                  first ? "" : ",", policy.c_str(), share, static_cast<long>(slots), compute * 1e3);
      print("p2f", p2f);
      std::printf(", ");
      print("sync", sync);
      std::printf(", \"sync_over_p2f\": %.4g}", sync.stall / p2f.stall);
      std::fflush(stdout);
      first = false;
    }
  std::printf("]}\n");
}
