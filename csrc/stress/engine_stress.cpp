// Trains a table through one engine life after another for a given time, with random settings, random delays in every
// thread and random kills of a rank's process, and compares with the oracle to the bit after every life. A life that is
// killed is repeated from the last good table, as a trainer would resume from its checkpoint.
//
//   engine_stress [--seconds 60] [--seed 1]
//
// Exit status 1, with the seed of the life, at the first difference, hang, or error that is not the expected one.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>

#include "engine/row_map.h"
#include "engine/testing.h"
#include "tests/engine/process_ranks.h"

namespace frugal::testing {
namespace {

struct Totals {
  std::int64_t lives = 0, processes_lives = 0, kills = 0, steps = 0, records = 0, slowest_stop = 0;
};

class Stress {
 public:
  explicit Stress(unsigned seed) : random_(seed) {}

  // One more life. Returns an empty string, or what went wrong.
  std::string live() {
    if (totals.lives % 25 == 0) new_table();
    const auto life_seed = static_cast<unsigned>(random_());
    Shape shape = random_shape(life_seed);
    const Trace trace = random_trace(shape);
    const std::string wrong = random_() % 2 ? in_processes(shape, trace) : in_threads(shape, trace);
    ++totals.lives;
    return wrong.empty()
               ? wrong
               : wrong + " (life " + std::to_string(totals.lives) + ", seed " + std::to_string(life_seed) + ")";
  }

  Totals totals;

 private:
  template <class T>
  T pick(std::initializer_list<T> of) {
    return *(of.begin() + static_cast<std::ptrdiff_t>(random_() % of.size()));
  }

  void new_table() {
    rows_ = pick<std::int64_t>({5, 40, 500});
    dim_ = pick<std::int64_t>({1, 7, 50});
    Shape shape;
    shape.rows = rows_;
    shape.dim = dim_;
    layout_ = RowLayout::for_dim(dim_);
    table_ = initial_table(shape, layout_);
  }

  Shape random_shape(unsigned seed) {
    Shape shape;
    shape.seed = seed;
    shape.rows = rows_;
    shape.dim = dim_;
    shape.ranks = pick({1, 2, 3, 4, 8});
    shape.lookahead = pick({1, 2, 4, 10, 40});
    shape.flush_threads = pick({1, 2, 3, 8});
    shape.steps = pick<std::int64_t>({10, 50, 200});
    shape.batch = pick({2, 10, 60});
    shape.skewed = random_() % 2;
    shape.slots = pick<std::int64_t>({0, 1, 8, rows_});
    shape.reject = pick({0.0, 0.3, 0.9});
    shape.mode = random_() % 10 == 0 ? FlushMode::kSync : FlushMode::kP2F;
    if (shape.ranks == 1 && random_() % 3 == 0) shape.mode = FlushMode::kDirect;
    shape.horizon = static_cast<int>(random_() % static_cast<unsigned>(shape.lookahead));
    return shape;
  }

  // Ranks that now and then are slow, each in its own way.
  std::function<void(int, std::int64_t)> delays(unsigned seed) {
    if (random_() % 3 == 0) return {};
    return [seed](int rank, std::int64_t step) {
      const std::uint64_t x = hash_row(static_cast<std::int64_t>(seed) + rank * 7919 + step * 104729);
      if (x % 8 == 0) std::this_thread::sleep_for(std::chrono::microseconds((x >> 20) % 1500));
    };
  }

  // Engine threads that now and then are slow, at the points where the order matters.
  void slow_engine() {
    if (random_() % 2) return;
    const auto counter = std::make_shared<std::atomic<std::uint64_t>>(random_());
    set_sync_points([counter](const char*, std::int64_t) {
      const std::uint64_t x = hash_row(static_cast<std::int64_t>(counter->fetch_add(1) >> 1));
      if (x % 64 == 0) std::this_thread::sleep_for(std::chrono::microseconds((x >> 20) % 300));
    });
  }

  std::string in_threads(const Shape& shape, const Trace& trace) {
    RunOptions options;
    options.before_step = delays(shape.seed);
    options.patience = std::chrono::milliseconds(60'000);
    if (shape.steps > 20) options.drain_after = {shape.steps / 3};
    options.compare_drains = false;  // the middle table is compared by the reads that follow
    slow_engine();
    const Outcome outcome = run_workload(shape, trace, options, &table_);
    set_sync_points(nullptr);
    totals.steps += shape.steps;
    for (const FlushWorkerStatistics& worker : outcome.statistics.workers) totals.records += worker.flushed_rows;
    if (!outcome.error.empty()) return "threads: " + outcome.error;
    if (!outcome.right())
      return "threads: " + std::to_string(outcome.stale_reads) + " stale reads, " + std::to_string(outcome.wrong_rows) +
             " wrong rows";
    return "";
  }

  std::string in_processes(const Shape& shape, const Trace& trace) {
    ++totals.processes_lives;
    SharedMemory memory(table_.size() * sizeof(float));
    const std::span<float> table(static_cast<float*>(memory.data()), table_.size());
    std::copy(table_.begin(), table_.end(), table.begin());
    ProcessOptions options;
    options.before_step = delays(shape.seed);
    options.patience = std::chrono::milliseconds(60'000);
    if (shape.ranks > 1 && random_() % 2) {
      options.kill_rank = static_cast<int>(random_() % static_cast<unsigned>(shape.ranks));
      options.kill_after = std::chrono::microseconds(random_() % 40'000);
    }
    slow_engine();
    const ProcessOutcome outcome = run_processes(shape, trace, table, options);
    set_sync_points(nullptr);
    if (outcome.hung) return "processes: hung";
    if (outcome.stale_reads != 0) return "processes: stale reads";
    const bool died = std::count(outcome.exit_codes.begin(), outcome.exit_codes.end(), -SIGKILL) > 0;
    for (std::size_t r = 0; r < outcome.exit_codes.size(); ++r) {
      const int code = outcome.exit_codes[r];
      const bool expected =
          code == kDone || (died && (code == -SIGKILL || code == kStoppedByEngine || code == kNeverStarted));
      if (!expected)
        return "processes: rank " + std::to_string(r) + " ended with " + std::to_string(code) + ": " +
               outcome.errors[r];
    }
    if (died) {
      ++totals.kills;
      totals.slowest_stop = std::max(totals.slowest_stop, outcome.milliseconds_after_kill);
      return "";  // the next life starts from the last good table
    }
    const Oracle oracle(shape, trace, layout_, RowAdagradUpdate(0.1f), table_);
    if (count_wrong_rows(table, oracle.table, layout_) != 0) return "processes: wrong rows";
    table_ = oracle.table;
    totals.steps += shape.steps;
    return "";
  }

  std::mt19937_64 random_;
  std::int64_t rows_ = 0, dim_ = 0;
  RowLayout layout_{};
  std::vector<float> table_;  // expected; changes with every life that ends well
};

}  // namespace
}  // namespace frugal::testing

int main(int argc, char** argv) {
  long seconds = 60;
  unsigned seed = 1;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--seconds") == 0) seconds = std::atol(argv[i + 1]);
    if (std::strcmp(argv[i], "--seed") == 0) seed = static_cast<unsigned>(std::atol(argv[i + 1]));
  }
  frugal::testing::Stress stress(seed);
  const auto start = std::chrono::steady_clock::now();
  auto next_report = start + std::chrono::seconds(30);
  const auto report = [&](const char* what) {
    const auto& t = stress.totals;
    std::printf(
        "%s: %ld lives (%ld with ranks as processes, %ld of them killed, slowest stop %ld ms), %ld steps, %ld "
        "records\n",
        what, static_cast<long>(t.lives), static_cast<long>(t.processes_lives), static_cast<long>(t.kills),
        static_cast<long>(t.slowest_stop), static_cast<long>(t.steps), static_cast<long>(t.records));
    std::fflush(stdout);
  };
  while (std::chrono::steady_clock::now() - start < std::chrono::seconds(seconds)) {
    const std::string wrong = stress.live();
    if (!wrong.empty()) {
      std::printf("WRONG: %s\n", wrong.c_str());
      report("until then");
      return 1;
    }
    if (std::chrono::steady_clock::now() >= next_report) {
      report("so far");
      next_report += std::chrono::seconds(30);
    }
  }
  report("no error");
  return 0;
}
