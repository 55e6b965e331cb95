// Ranks, each with three streams that are threads, move rows for each other: against plain loops, and that the test
// sees it when one of the waits is left out.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <random>
#include <thread>
#include <vector>

#include "comm/cpu/owner_transfer.h"
#include "table/half_rows.h"
#include "tests/comm/eventually.h"
#include "tests/comm/owner_ranks.h"

namespace frugal {
namespace {

using namespace std::chrono_literals;
using namespace owner_ranks;

enum Stream { kPrefetches, kComputation, kWriteBacks, kStreams };

constexpr std::int64_t kTableRows = 60, kStepRows = 17;

float start_value(std::int64_t row, int rank, std::int64_t column) {
  return static_cast<float>(row * 100 + rank * 10 + column % 7);
}

float trained(float value, int step) { return static_cast<float>(static_cast<int>(value * 3 + step) % 2000); }

// How far each stream of a rank is.
struct Progress {
  std::atomic<int> done[kStreams] = {};

  bool has_done(Stream stream, int steps) const { return done[stream].load(std::memory_order_acquire) >= steps; }
  void await(Stream stream, int steps) const {
    while (!has_done(stream, steps)) std::this_thread::yield();
  }
};

// How many floats of the host table are not those of plain loops after `steps` steps, with a
// pause(rank, stream, step, progress of all ranks) before each piece of work.
template <typename Pause>
int wrong_floats(int ranks, int steps, const OwnerTransferRules& rules, Pause pause) {
  const RowLayout layout = RowLayout::for_dim(40);
  const std::vector<PlannedStep> planned = plan(steps, kTableRows, kStepRows, 3);
  Ranks all(ranks, layout, kTableRows, kStepRows);
  std::vector<float> expected(all.host.size());
  for (std::int64_t row = 0; row < kTableRows; ++row)
    for (int rank = 0; rank < ranks; ++rank)
      for (std::int64_t i = 0; i < layout.record_floats(); ++i) {
        const auto at = static_cast<std::size_t>((row * ranks + rank) * layout.stride + i);
        all.host[at] = expected[at] = start_value(row, rank, i);
        for (int k = 0; k < steps; ++k)
          if (std::ranges::binary_search(planned[static_cast<std::size_t>(k)].rows, row))
            expected[at] = trained(expected[at], k);
      }

  std::vector<Progress> progress(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    Progress& own = progress[static_cast<std::size_t>(rank)];
    const auto start = [&, rank](Stream stream, auto work) {
      threads.emplace_back([&, rank, stream, work] {
        const OwnerTransferRows rows = all.rows(rank, rules);
        for (int k = 0; k < steps; ++k) {
          if (stream == kPrefetches) own.await(kWriteBacks, k - kStepsThere + 1);
          if (stream == kComputation) own.await(kPrefetches, k + 1);
          if (stream == kWriteBacks) own.await(kComputation, k + 1);
          pause(rank, stream, k, progress);
          work(rows, planned[static_cast<std::size_t>(k)], k);
          own.done[stream].store(k + 1, std::memory_order_release);
        }
      });
    };
    start(kPrefetches, [&](const OwnerTransferRows& rows, const PlannedStep& step, int k) {
      cpu::prefetch(rows, step.reads(), all.records_of(k), static_cast<std::uint64_t>(k) + 1);
    });
    start(kComputation, [&, rank](const OwnerTransferRows&, const PlannedStep& step, int k) {
      float* const slots = all.slots[static_cast<std::size_t>(rank)].data();
      const float* const records = all.records_of(k).of[rank];
      for (std::size_t u = 0; u < step.rows.size(); ++u) {
        const float* const from = step.source[u] == kFromHost
                                      ? records + static_cast<std::int64_t>(u) * layout.stride
                                      : slots + step.source[u] * layout.stride;
        for (std::int64_t i = 0; i < layout.record_floats(); ++i)
          slots[step.target[u] * layout.stride + i] = trained(from[i], k);
      }
    });
    start(kWriteBacks, [&](const OwnerTransferRows& rows, const PlannedStep& step, int k) {
      cpu::write_back(rows, step.write_backs(), static_cast<std::uint64_t>(k) + 1);
    });
  }
  for (std::thread& thread : threads) thread.join();
  int wrong = 0;
  for (std::size_t i = 0; i < expected.size(); ++i)
    if (static_cast<std::int64_t>(i) % layout.stride < layout.record_floats()) wrong += all.host[i] != expected[i];
  return wrong;
}

TEST(OwnerTransferRows, AreThoseOfPlainLoops) {
  const auto no_pause = [](int, Stream, int, const auto&) {};
  for (const int ranks : {1, 2, 3, 4, 8}) EXPECT_EQ(wrong_floats(ranks, 40, {}, no_pause), 0) << ranks;
}

TEST(OwnerTransferRows, WhicheverStreamIsLate) {
  for (int late = 0; late < 2 * kStreams; ++late)
    EXPECT_EQ(wrong_floats(2, 12, {},
                           [late](int rank, Stream stream, int, const auto&) {
                             if (rank * kStreams + stream == late) std::this_thread::sleep_for(1ms);
                           }),
              0)
        << late;
}

TEST(OwnerTransferRows, WhateverTheDelays) {
  EXPECT_EQ(wrong_floats(3, 30, {},
                         [](int rank, Stream stream, int step, const auto&) {
                           std::mt19937 random(static_cast<unsigned>(rank * 1000 + stream * 100 + step));
                           std::this_thread::sleep_for(std::chrono::microseconds(random() % 500));
                         }),
            0);
}

// Without the wait for others' prefetches a late row is computed with as it was before.
TEST(OwnerTransferMutations, APrefetchThatIsNotWaitedForIsCaught) {
  EXPECT_GT(wrong_floats(2, 12, {.waits_for_prefetches = false},
                         [](int rank, Stream stream, int step, const auto& progress) {
                           if (rank == 1 && stream == kPrefetches)
                             eventually([&] { return progress[0].has_done(kComputation, step + 1); });
                         }),
            0);
}

// Without the wait for others' computation the old value of a slot is written back.
TEST(OwnerTransferMutations, AValueThatIsNotHeardIsCaught) {
  EXPECT_GT(wrong_floats(2, 12, {.hears_values = false},
                         [](int rank, Stream stream, int step, const auto& progress) {
                           if (rank == 1 && stream == kComputation)
                             eventually([&] { return progress[0].has_done(kWriteBacks, step + 1); });
                         }),
            0);
}

// Evicted rows are written back from the slots of all ranks, once these have computed the step before.
TEST(OwnerTransferRows, AreWrittenBackWhenAllRanksHaveTheirValues) {
  const RowLayout layout = RowLayout::for_dim(30);
  Ranks all(2, layout, 8, 4);
  std::vector<WriteBack> evicted;
  for (std::int64_t row = 2; row < 6; ++row)
    evicted.push_back({row, 6, row, 7, static_cast<std::int32_t>(row + 3), RowDestination::kHostRow});
  std::thread early([&] { cpu::write_back_evicted(all.rows(0), evicted.data(), 4, 7); });  // waits for rank 1
  for (int rank = 0; rank < 2; ++rank)
    for (std::int64_t slot = 5; slot < 9; ++slot)
      for (std::int64_t i = 0; i < layout.record_floats(); ++i)
        if (rank == 1) all.slots[1][static_cast<std::size_t>(slot * layout.stride + i)] = static_cast<float>(slot);
  cpu::tell(all.rows(1).computed, 7);
  early.join();
  for (std::int64_t row = 0; row < 8; ++row)
    for (int rank = 0; rank < 2; ++rank) {
      const float of_slot = rank == 1 ? static_cast<float>(row + 3) : -1.0f;
      const bool is_on_host = row >= 2 && row < 6 && row % 2 == 0;  // owned by rank 0
      for (std::int64_t i = 0; i < layout.record_floats(); ++i)
        ASSERT_EQ(all.rows(0).host_part(row, rank)[i], is_on_host ? of_slot : 0.0f) << row << " " << rank << " " << i;
    }
}

TEST(OwnerTransferRows, ArePrefetchedInFloatsFromHalves) {
  const RowLayout layout = RowLayout::for_dim(21, 1, RowElement::kFloat16);
  const std::vector<PlannedStep> planned = plan(1, 12, 9, 5);
  Ranks all(3, layout, 12, 9);
  std::vector<float> values(21), expanded(static_cast<std::size_t>(all.memory().record_stride()));
  for (std::int64_t row = 0; row < 12; ++row)
    for (int rank = 0; rank < 3; ++rank) {
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = start_value(row, rank, static_cast<std::int64_t>(i));
      round_embedding_to_nearest(layout, values.data(), all.rows(0).host_part(row, rank));
    }
  all.announce_all(1);
  for (int rank = 0; rank < 3; ++rank) cpu::prefetch(all.rows(rank), planned[0].reads(), all.records_of(0), 1);
  for (std::size_t u = 0; u < 9; ++u)
    for (int rank = 0; rank < 3; ++rank)
      for (std::int64_t i = 0; i < 21; ++i)
        ASSERT_EQ(all.records_of(0).of[rank][static_cast<std::int64_t>(u) * all.memory().record_stride() + i],
                  start_value(planned[0].rows[u], rank, i));
}

TEST(OwnerTransferRows, WaitForNobodyOnceARankHasFailed) {
  Ranks all(2, RowLayout::for_dim(8), 8, 4);
  const std::vector<PlannedStep> planned = plan(1, 8, 4, 1);
  const std::vector<float> before = all.host;
  all.failed = 1;
  cpu::prefetch(all.rows(0), planned[0].reads(), all.records_of(0), 1);
  cpu::write_back(all.rows(0), planned[0].write_backs(), 1);
  EXPECT_EQ(all.host, before);  // nothing is written back that no rank has computed
}

}  // namespace
}  // namespace frugal
