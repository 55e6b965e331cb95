#include "store/step_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "engine/engine.h"
#include "rows/cpu/entry_update.h"
#include "rows/cpu/row_copy.h"
#include "store/cached_rows.h"
#include "store/direct_rows.h"
#include "table/host_table.h"
#include "tests/engine/random_admission.h"

namespace frugal {
namespace {

constexpr std::int64_t kRows = 60, kDim = 9, kSteps = 80, kOccurrences = 25;

// Ids of every step, with duplicates, a few of them far more often than the rest.
std::vector<std::vector<std::int64_t>> workload() {
  std::mt19937_64 random(3);
  std::vector<std::vector<std::int64_t>> steps(kSteps, std::vector<std::int64_t>(kOccurrences));
  for (auto& step : steps)
    for (auto& id : step) id = random() % 2 ? random() % 6 : random() % kRows;
  return steps;
}

std::vector<float> dense(HostTable& table) {
  std::vector<float> values;
  for (std::int64_t id = 0; id < table.rows(); ++id)
    values.insert(values.end(), table.row(id), table.row(id) + kDim + 1);
  return values;
}

// Runs the workload with gradients that depend on what was read; returns everything that was read.
std::vector<float> train(StepRows& rows, int lookahead) {
  constexpr std::int64_t kFirst = 1000;  // as in a resumed run
  const auto steps = workload();
  std::vector<float> seen, embeddings(kOccurrences * kDim), gradients(kOccurrences * kDim);
  std::int64_t announced = 0;
  for (std::int64_t s = 0; s < kSteps; ++s) {
    for (; announced < kSteps && announced <= s + lookahead; ++announced) {
      auto distinct = steps[announced];
      std::sort(distinct.begin(), distinct.end());
      distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
      rows.announce(kFirst + announced, distinct, {});
    }
    rows.begin(kFirst + s);
    const auto sources = find_records(rows, rows.source(), steps[s].data(), kOccurrences);
    gather_rows(sources.data(), kOccurrences, kDim, embeddings.data());
    seen.insert(seen.end(), embeddings.begin(), embeddings.end());
    for (std::size_t i = 0; i < gradients.size(); ++i)
      gradients[i] = embeddings[i] * 0.3f + static_cast<float>((s * 7 + i) % 11) - 5;
    copy_to_destination(rows);
    const auto records = find_records(rows, rows.destination(), steps[s].data(), kOccurrences);
    apply_entry(RowAdagrad{0.1f}, records.data(), kOccurrences, kDim, gradients.data());
    rows.end();
    if (s == kSteps / 2) rows.drain();
  }
  rows.drain();
  return seen;
}

struct Setting {
  FlushMode mode;
  int lookahead, flush_threads;
  std::int64_t slots;
};

class CachedRowsTest : public testing::TestWithParam<Setting> {};

TEST_P(CachedRowsTest, IsTheTableItselfToTheBit) {
  HostTable expected(kRows, kDim, Sharing::kPrivate), table(kRows, kDim, Sharing::kPrivate);
  for (HostTable* each : {&expected, &table}) each->init_uniform(-1, 1, 5, 0);
  DirectRows direct(expected);
  const auto expected_reads = train(direct, 0);

  const Setting& setting = GetParam();
  EngineConfig config;
  config.lookahead = setting.lookahead;
  config.flush_threads = setting.flush_threads;
  config.mode = setting.mode;
  config.layout = table.layout();
  config.rows = kRows;
  config.host_rows = table.data();
  config.max_rows_per_step = kOccurrences;
  config.update = std::make_shared<RowAdagradUpdate>(0.1f);
  if (setting.slots) config.caches = {std::make_shared<RandomAdmission>(setting.slots, 0.3, 17)};
  Engine engine(config);
  CachedRows cached(table, engine.client(0));
  EXPECT_EQ(train(cached, setting.lookahead), expected_reads);
  EXPECT_EQ(dense(table), dense(expected));
}

std::vector<Setting> settings() {
  std::vector<Setting> all;
  for (const auto mode : {FlushMode::kP2F, FlushMode::kSync})
    for (const int lookahead : {1, 10, 200})
      for (const int threads : {1, 3})
        for (const std::int64_t slots : {0, 4, 60}) all.push_back({mode, lookahead, threads, slots});
  return all;
}

INSTANTIATE_TEST_SUITE_P(AllSettings, CachedRowsTest, testing::ValuesIn(settings()));

TEST(StepRows, KnowsOnlyAnnouncedRows) {
  HostTable table(10, 4, Sharing::kPrivate);
  DirectRows rows(table);
  const std::vector<std::int64_t> known{2, 5}, unknown{3};
  rows.announce(0, known, {});
  rows.begin(0);
  EXPECT_EQ(find_records(rows, rows.source(), known.data(), 2)[1], table.row(5));
  EXPECT_THROW(find_records(rows, rows.source(), unknown.data(), 1), std::out_of_range);
  rows.end();
  EXPECT_THROW(rows.announce(2, known, {}), std::logic_error);
  EXPECT_THROW(rows.begin(1), std::logic_error);
  const std::vector<std::int64_t> outside{10};
  EXPECT_THROW(rows.announce(1, outside, {}), std::out_of_range);
}

}  // namespace
}  // namespace frugal
