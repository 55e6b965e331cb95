// Ranks as processes: the same contract over a shared segment, and what happens when one of them dies.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/engine/process_ranks.h"

namespace frugal::testing {
namespace {

struct Training {
  Shape shape;
  Trace trace;
  RowLayout layout;
  SharedMemory memory;
  std::span<float> table;

  explicit Training(const Shape& s)
      : shape(s),
        trace(random_trace(s)),
        layout(RowLayout::for_dim(s.dim)),
        memory(static_cast<std::size_t>(s.rows * layout.bytes())),
        table(static_cast<float*>(memory.data()), static_cast<std::size_t>(s.rows * layout.stride)) {
    const std::vector<float> start = initial_table(shape, layout);
    std::copy(start.begin(), start.end(), table.begin());
  }
};

TEST(EngineProcesses, TableEqualsTheOracle) {
  for (unsigned seed = 0; seed < 6; ++seed) {
    Shape shape;
    shape.seed = seed;
    shape.ranks = 1 + static_cast<int>(seed % 4);
    shape.slots = seed % 3 * 4;
    shape.mode = seed == 5 ? FlushMode::kSync : FlushMode::kP2F;
    Training run(shape);
    const ProcessOutcome outcome = run_processes(shape, run.trace, run.table);
    EXPECT_EQ(outcome.exit_codes, std::vector<int>(static_cast<std::size_t>(shape.ranks), kDone))
        << outcome.errors.back();
    EXPECT_EQ(outcome.stale_reads, 0);
    const Oracle oracle(shape, run.trace, run.layout, RowAdagradUpdate(0.1f));
    EXPECT_EQ(count_wrong_rows(run.table, oracle.table, run.layout), 0) << seed;
  }
}

class EngineProcessDeath : public ::testing::TestWithParam<int> {};

// The victim dies while all others are in the middle of training; they stop with a sentence that names the cause.
TEST_P(EngineProcessDeath, StopsTheOthersWithASentence) {
  Shape shape;
  shape.ranks = 3;
  shape.steps = 100;
  Training run(shape);
  ProcessOptions options;
  options.kill_rank = GetParam();
  options.kill_at_step = 30;
  const ProcessOutcome outcome = run_processes(shape, run.trace, run.table, options);
  EXPECT_FALSE(outcome.hung);
  for (int rank = 0; rank < shape.ranks; ++rank) {
    if (rank == GetParam()) {
      EXPECT_EQ(outcome.exit_codes[static_cast<std::size_t>(rank)], -SIGKILL);
    } else {
      EXPECT_EQ(outcome.exit_codes[static_cast<std::size_t>(rank)], kStoppedByEngine);
      const std::string& error = outcome.errors[static_cast<std::size_t>(rank)];
      const char* cause = GetParam() == 0 ? "The process that runs the engine has ended." : "Rank 2 (process ";
      EXPECT_EQ(error.rfind(cause, 0), 0u) << error;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Victims, EngineProcessDeath, ::testing::Values(0, 2));

}  // namespace
}  // namespace frugal::testing
