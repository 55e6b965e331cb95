// The contract: whatever the settings, every value read and every drained table equal the plain oracle's to the bit.
#include <gtest/gtest.h>

#include <random>

#include "tests/engine/run_workload.h"

namespace frugal::testing {
namespace {

std::string describe(const Shape& s) {
  return "seed " + std::to_string(s.seed) + " ranks " + std::to_string(s.ranks) + " lookahead " +
         std::to_string(s.lookahead) + " threads " + std::to_string(s.flush_threads) + " rows " +
         std::to_string(s.rows) + " batch " + std::to_string(s.batch) + " slots " + std::to_string(s.slots) + " mode " +
         std::to_string(static_cast<int>(s.mode)) + " caching " + std::to_string(static_cast<int>(s.caching));
}

void expect_right(const Shape& shape, const RunOptions& options = {}) {
  const Outcome outcome = run_workload(shape, random_trace(shape), options);
  EXPECT_EQ(outcome.error, "") << describe(shape);
  EXPECT_EQ(outcome.stale_reads, 0) << describe(shape);
  EXPECT_EQ(outcome.wrong_rows, 0) << describe(shape);
}

class EngineOracle : public ::testing::TestWithParam<unsigned> {};

TEST_P(EngineOracle, RandomWorkloadsEqualTheOracleInEveryMode) {
  for (unsigned part = 0; part < 15; ++part) {
    Shape shape = random_shape(GetParam() * 100 + part);
    shape.mode = part % 10 < 2 ? FlushMode::kSync : FlushMode::kP2F;
    if (part >= 10) shape.caching = (part + GetParam()) % 2 == 0 ? Caching::kStatic : Caching::kLfu;
    if (part % 2 == 0 && shape.ranks == 1) shape.mode = FlushMode::kDirect;
    expect_right(shape, {.drain_after = {7, 8, 21}});
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, EngineOracle, ::testing::Range(0u, 12u));

TEST(EngineOracle, RunsLongerThanEveryRing) {
  Shape shape;
  shape.steps = 3000;
  shape.lookahead = 2;
  shape.ranks = 2;
  expect_right(shape);
}

TEST(EngineOracle, StagingForOneStepOnlyIsEnough) {
  Shape shape;
  shape.ranks = 1;
  shape.slots = 3;
  shape.steps = 300;
  shape.batch = 12;
  shape.staging_bytes = 15 * RowLayout::for_dim(shape.dim).bytes();  // 12 values, 3 evictions
  expect_right(shape);
}

TEST(EngineOracle, CountersAddUp) {
  Shape shape;
  shape.ranks = 2;
  const Trace trace = random_trace(shape);
  const Outcome outcome = run_workload(shape, trace);
  std::int64_t rows = 0, reads = 0, sent = 0, landed = 0, gradients = 0;
  for (const auto& step : trace)
    for (const StepWork& work : step) rows += static_cast<std::int64_t>(work.rows.size());
  for (const RankStatistics& rank : outcome.statistics.ranks) {
    reads += rank.cache_reads + rank.host_reads;
    sent += rank.values_sent + rank.write_backs_sent;
    gradients += rank.gradients_sent;
    EXPECT_EQ(rank.steps, shape.steps);
    EXPECT_GT(rank.cache_reads, 0);
  }
  for (const FlushWorkerStatistics& worker : outcome.statistics.workers) {
    landed += worker.values;
    EXPECT_EQ(worker.flushed_rows, worker.values + worker.gradients);
    gradients -= 2 * worker.gradients;  // with two ranks a record of gradients comes from both
  }
  EXPECT_EQ(reads, rows);
  EXPECT_EQ(landed, sent);
  EXPECT_EQ(gradients, 0);
}

TEST(EngineOracle, ARankWhoseReadsFollowItsStoresNeedsNoFlushWorkers) {
  for (const std::int64_t slots : {0, 4}) {
    Shape shape;
    shape.ranks = 1;
    shape.slots = slots;
    shape.mode = FlushMode::kDirect;
    const Outcome outcome = run_workload(shape, random_trace(shape), {.drain_after = {7, 8, 21}});
    EXPECT_EQ(outcome.error, "");
    EXPECT_EQ(outcome.stale_reads + outcome.wrong_rows, 0);
    const RankStatistics& rank = outcome.statistics.ranks[0];
    EXPECT_EQ(rank.steps_with_stall, 0);
    EXPECT_EQ(rank.write_backs_sent > 0, slots > 0);
    ASSERT_EQ(outcome.statistics.workers.size(), 1u);  // its numbers are the rank's own
    EXPECT_EQ(outcome.statistics.workers[0].flushed_rows, rank.values_sent + rank.write_backs_sent);
  }
}

TEST(EngineOracle, ManyRowsOnAllRanksWithRandomDelays) {
  Shape shape;
  shape.ranks = 4;
  shape.rows = 6;
  shape.batch = 30;
  RunOptions options;
  options.before_step = [](int rank, std::int64_t step) {
    if ((step * 7 + rank * 3) % 5 == 0) std::this_thread::sleep_for(std::chrono::microseconds(300 * (rank + 1)));
  };
  expect_right(shape, options);
}

}  // namespace
}  // namespace frugal::testing
