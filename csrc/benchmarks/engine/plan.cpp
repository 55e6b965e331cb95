// What it costs to decide a step: the planner's threads alone, and what the training thread pays beside them. Nobody
// computes: a rank sleeps between its calls, so that planner and flush threads have the cores. Prints one JSON object.
//
//   engine_plan [--rows 20000000] [--path host_row|staging] [--policy NAME] [--share 5] [--steps 1000]
//               [--pause 150] [--ranks 1] [--executors RANKS] [--threads 0] [--cold 0]
//
// --policy: static, lru, lfu, epoch_lru, epoch_lfu or next_use. --share: percent of the rows that the cache holds. --pause: microseconds that a step sleeps. --ranks: whose
// batches a step joins. --executors: threads that run the steps by one plan (the first one's times are printed).
// --threads: of the planner. Steps that fill the cache, and half of the others, come before those that count; with
// --cold 1 none do, so that the cache takes rows in.
#include <algorithm>
#include <cstdio>
#include <iterator>
#include <memory>
#include <thread>

#include "benchmarks/engine/sparse_table.h"
#include "benchmarks/engine/timing.h"
#include "benchmarks/engine/traces.h"
#include "cache/named_policy.h"
#include "engine/engine.h"
#include "engine/simple_policies.h"

namespace frugal::benchmarks {
namespace {

constexpr double kExponent = 0.8;

constexpr std::int64_t kMaxRows = 2 * kPositives + kNegatives;  // of one rank's batch

std::shared_ptr<CachePolicy> make_policy(const std::string& name, std::int64_t rows,
                                         const std::vector<std::int64_t>& hot) {
  if (name == "static") return std::make_shared<StaticHotSet>(hot);
  return make_named_policy(name, rows, static_cast<std::int64_t>(hot.size()));
}

// Steps that use each of `hot` once.
RowTrace filling_trace(const std::vector<std::int64_t>& hot, std::int64_t rows_of_step) {
  const auto most = static_cast<std::size_t>(rows_of_step);
  RowTrace trace;
  for (std::size_t begin = 0; begin < hot.size(); begin += most)
    finish_step(trace, {hot.begin() + static_cast<std::ptrdiff_t>(begin),
                        hot.begin() + static_cast<std::ptrdiff_t>(std::min(hot.size(), begin + most))});
  return trace;
}

struct Times {
  std::vector<double> registering, running;
};

// What one rank does, but for computing: before_step(s) first. entries: that tell how often a row occurs in them; 0: a
// rank alone, or one of those that share a plan.
template <class BeforeStep>
Times train(RankPort& port, const RowTrace& trace, int entries, int lookahead, std::int64_t filled, std::int64_t warm,
            std::int64_t pause, BeforeStep before_step) {
  const auto steps = static_cast<std::int64_t>(trace.size());
  const std::vector<std::int32_t> once(static_cast<std::size_t>(entries * port.max_rows()), 1);
  std::int64_t registered = 0;
  Times times;
  for (std::int64_t s = 0; s < steps; ++s) {
    before_step(s);
    double start = now();
    for (; registered < steps && registered <= s + lookahead; ++registered)
    {
      const auto& rows = trace[static_cast<std::size_t>(registered)];
      port.register_step(registered, rows, {once.data(), static_cast<std::size_t>(entries) * rows.size()});
    }
    if (s >= warm) times.registering.push_back(now() - start);
    if (s >= filled) std::this_thread::sleep_for(std::chrono::microseconds(pause));
    start = now();
    port.plan(s);
    for (auto requests = port.write_backs(s); !requests.empty(); requests = port.write_backs(s))
      port.publish_write_backs(static_cast<std::int64_t>(requests.size()));
    port.wait_gate(s);
    port.publish(s);
    if (s >= warm) times.running.push_back(now() - start);
  }
  return times;
}

}  // namespace
}  // namespace frugal::benchmarks

int main(int argc, char** argv) {
  using namespace frugal;
  using namespace frugal::benchmarks;
  const std::int64_t rows = number(argc, argv, "--rows", 20'000'000), pause = number(argc, argv, "--pause", 150);
  const std::int64_t slots = rows * number(argc, argv, "--share", 5) / 100;
  const std::string path = option(argc, argv, "--path", "host_row"), policy = option(argc, argv, "--policy", "static");
  const int ranks = static_cast<int>(number(argc, argv, "--ranks", 1));
  const int executors = static_cast<int>(number(argc, argv, "--executors", ranks));
  // By rows each rank has batches and a cache of its own for the same hot rows, as ranks have whose edges are random
  // parts of the graph; else all have the joined batch.
  const bool by_rows = number(argc, argv, "--by_rows", 0) != 0, meets = number(argc, argv, "--meets", 0) != 0;
  const int joined = by_rows ? 1 : ranks, plans = by_rows ? ranks : 1;
  const std::int64_t max_rows = std::min(rows, joined * kMaxRows);
  std::vector<std::int64_t> hot(static_cast<std::size_t>(slots));
  for (std::size_t rank = 0; rank < hot.size(); ++rank) hot[rank] = zipf_row(rank, rows);
  const bool cold = number(argc, argv, "--cold", 0) != 0;
  std::vector<RowTrace> traces;
  for (int plan = 0; plan < plans; ++plan) {
    RowTrace& trace = traces.emplace_back(cold ? RowTrace() : filling_trace(hot, max_rows));
    // Not the same rows at a time, which no cache would take in.
    std::ranges::rotate(trace, trace.begin() + std::ssize(trace) * plan / plans);
    std::ranges::move(zipf_trace(rows, kExponent, number(argc, argv, "--steps", 1000), joined,
                                 2 + static_cast<unsigned>(plan)), std::back_inserter(trace));
  }
  const RowTrace& trace = traces[0];
  const auto steps = static_cast<std::int64_t>(trace.size());
  const auto filled = steps - number(argc, argv, "--steps", 1000), warm = cold ? 0 : filled + (steps - filled) / 2;
  const RowLayout layout = RowLayout::for_dim(1);  // what is planned does not depend on it
  const SparseTable table(rows, layout);
  EngineConfig config;
  config.ranks = executors;
  config.same_steps = executors > 1 && !by_rows;
  config.meets = meets;
  config.planner_threads = static_cast<int>(number(argc, argv, "--threads", 0));
  config.value_path = path == "staging" ? ValuePath::kStaging : ValuePath::kHostRow;
  config.layout = layout;
  config.rows = rows;
  config.host_rows = table.data();
  config.max_rows_per_step = max_rows;
  config.in_flight_steps = 3;       // as with a device
  config.evicts_in_flight = !meets;  // likewise
  config.update = std::make_shared<RowAdagradUpdate>(0.1f);
  for (int plan = 0; plan < plans; ++plan) config.caches.push_back(make_policy(policy, rows, hot));
  config.horizon = config.caches[0]->wants_next_use() ? config.lookahead - 1 : 0;
  Engine engine(config);
  std::int64_t planned_rows = 0, planned_before = 0, planning_before = 0;
  RankStatistics before{};
  const auto run = [&](int rank, auto before_step) {
    return train(engine.port(rank), traces[by_rows ? static_cast<std::size_t>(rank) : 0], by_rows ? config.entries : 0,
                 config.lookahead, filled, warm, pause, before_step);
  };
  for (int rank = 0; rank < executors; ++rank) engine.port(rank);  // made here, before any other thread asks
  std::vector<std::thread> others;
  for (int rank = 1; rank < executors; ++rank) others.emplace_back([&, rank] { run(rank, [](std::int64_t) {}); });
  Times times = run(0, [&](std::int64_t s) {
    if (s != warm) return;
    const EngineStatistics statistics = engine.statistics();
    planned_before = statistics.planned_steps;
    planning_before = statistics.planning_nanoseconds;
    before = statistics.ranks[0];
  });
  for (std::thread& other : others) other.join();
  const EngineStatistics statistics = engine.statistics();
  for (auto s = planned_before; s < statistics.planned_steps; ++s)
    planned_rows += static_cast<std::int64_t>(trace[static_cast<std::size_t>(s)].size());
  const RankStatistics& after = statistics.ranks[0];
  const double seconds = static_cast<double>(statistics.planning_nanoseconds - planning_before) * 1e-9;
  const auto planned = static_cast<double>(statistics.planned_steps - planned_before);
  const double reads = static_cast<double>(after.cache_reads - before.cache_reads) +
                       static_cast<double>(after.host_reads - before.host_reads);
  std::printf(
      "{\"ranks\": %d, \"executors\": %d, \"by_rows\": %d, \"meets\": %d, \"threads\": %d, \"rows\": %ld, \"path\": \"%s\", "
      "\"policy\": \"%s\", \"slots\": %ld, \"rows_per_step\": %.5g, \"hit_share\": %.4g, \"rows_per_second\": %.4g, "
      "\"planning_us\": %.4g, \"register_us\": %.4g, \"run_us\": %.4g, \"engine_bytes\": %ld}\n",
      ranks, executors, by_rows, meets, config.planner_threads, static_cast<long>(rows), path.c_str(), policy.c_str(),
      static_cast<long>(slots),
      static_cast<double>(planned_rows) / planned,
      static_cast<double>(after.cache_reads - before.cache_reads) / reads, static_cast<double>(planned_rows) / seconds,
      seconds / planned * 1e6, median(times.registering) * 1e6, median(times.running) * 1e6,
      static_cast<long>(statistics.engine_bytes));
}
