// What it costs to decide a step: the planner's thread alone, and what the training thread pays beside it. One rank,
// nobody computes: the rank sleeps between its calls, so that planner and flush threads have the cores. Prints one
// JSON object.
//
//   engine_plan [--rows 20000000] [--path host_row|staging] [--policy static|lru|next_use] [--share 5] [--steps 1000]
//               [--pause 150]
//
// --share: percent of the rows that the cache holds. --pause: microseconds that a step sleeps. Steps that fill the
// cache, and half of the others, come before those that count.
#include <algorithm>
#include <cstdio>
#include <iterator>
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

constexpr double kExponent = 0.8;

constexpr std::int64_t kMaxRows = 2 * kPositives + kNegatives;

std::shared_ptr<CachePolicy> make_policy(const std::string& name, std::int64_t rows,
                                         const std::vector<std::int64_t>& hot) {
  if (name == "static") return std::make_shared<StaticHotSet>(hot);
  return std::make_shared<ScoredPolicy>(rows, static_cast<std::int64_t>(hot.size()), eviction_named(name));
}

// Steps that use each of `hot` once.
RowTrace filling_trace(const std::vector<std::int64_t>& hot) {
  RowTrace trace;
  for (std::size_t begin = 0; begin < hot.size(); begin += kMaxRows)
    finish_step(trace, {hot.begin() + static_cast<std::ptrdiff_t>(begin),
                        hot.begin() + static_cast<std::ptrdiff_t>(std::min(hot.size(), begin + kMaxRows))});
  return trace;
}

}  // namespace
}  // namespace frugal::benchmarks

int main(int argc, char** argv) {
  using namespace frugal;
  using namespace frugal::benchmarks;
  const std::int64_t rows = number(argc, argv, "--rows", 20'000'000), pause = number(argc, argv, "--pause", 150);
  const std::int64_t slots = rows * number(argc, argv, "--share", 5) / 100;
  const std::string path = option(argc, argv, "--path", "host_row"), policy = option(argc, argv, "--policy", "static");
  std::vector<std::int64_t> hot(static_cast<std::size_t>(slots));
  for (std::size_t rank = 0; rank < hot.size(); ++rank) hot[rank] = zipf_row(rank, rows);
  RowTrace trace = filling_trace(hot);
  const auto filled = static_cast<std::int64_t>(trace.size());
  std::ranges::move(zipf_trace(rows, kExponent, number(argc, argv, "--steps", 1000)), std::back_inserter(trace));
  const auto steps = static_cast<std::int64_t>(trace.size()), warm = filled + (steps - filled) / 2;
  const RowLayout layout = RowLayout::for_dim(1);  // what is planned does not depend on it
  const SparseTable table(rows, layout);
  EngineConfig config;
  config.value_path = path == "staging" ? ValuePath::kStaging : ValuePath::kHostRow;
  config.layout = layout;
  config.rows = rows;
  config.host_rows = table.data();
  config.max_rows_per_step = kMaxRows;
  config.update = std::make_shared<RowAdagradUpdate>(0.1f);
  config.caches = {make_policy(policy, rows, hot)};
  config.horizon = config.caches[0]->wants_next_use() ? config.lookahead - 1 : 0;
  Engine engine(config);
  RankPort& port = engine.port(0);
  std::int64_t registered = 0, planned_rows = 0, planned_before = 0, planning_before = 0;
  RankStatistics before{};
  std::vector<double> registering, running;
  for (std::int64_t s = 0; s < steps; ++s) {
    if (s == warm) {
      const EngineStatistics statistics = engine.statistics();
      planned_before = statistics.planned_steps;
      planning_before = statistics.planning_nanoseconds;
      before = statistics.ranks[0];
    }
    double start = now();
    for (; registered < steps && registered <= s + config.lookahead; ++registered)
      port.register_step(registered, trace[static_cast<std::size_t>(registered)], {});
    if (s >= warm) registering.push_back(now() - start);
    if (s >= filled) std::this_thread::sleep_for(std::chrono::microseconds(pause));
    start = now();
    port.plan(s);
    for (auto requests = port.write_backs(s); !requests.empty(); requests = port.write_backs(s))
      port.publish_write_backs(static_cast<std::int64_t>(requests.size()));
    port.wait_gate(s);
    port.publish(s);
    if (s >= warm) running.push_back(now() - start);
  }
  const EngineStatistics statistics = engine.statistics();
  for (auto s = planned_before; s < statistics.planned_steps; ++s)
    planned_rows += static_cast<std::int64_t>(trace[static_cast<std::size_t>(s)].size());
  const RankStatistics& after = statistics.ranks[0];
  const double seconds = static_cast<double>(statistics.planning_nanoseconds - planning_before) * 1e-9;
  const auto planned = static_cast<double>(statistics.planned_steps - planned_before);
  const double reads = static_cast<double>(after.cache_reads - before.cache_reads) +
                       static_cast<double>(after.host_reads - before.host_reads);
  std::printf(
      "{\"rows\": %ld, \"path\": \"%s\", \"policy\": \"%s\", \"slots\": %ld, \"rows_per_step\": %.5g, "
      "\"hit_share\": %.4g, \"rows_per_second\": %.4g, \"planning_us\": %.4g, \"register_us\": %.4g, "
      "\"run_us\": %.4g, \"engine_bytes\": %ld}\n",
      static_cast<long>(rows), path.c_str(), policy.c_str(), static_cast<long>(slots),
      static_cast<double>(planned_rows) / planned,
      static_cast<double>(after.cache_reads - before.cache_reads) / reads, static_cast<double>(planned_rows) / seconds,
      seconds / planned * 1e6, median(registering) * 1e6, median(running) * 1e6,
      static_cast<long>(statistics.engine_bytes));
}
