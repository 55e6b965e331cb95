// The kernels of shared rows, run on a CPU, against plain loops. One rank's run after the other's.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <tuple>
#include <vector>

#include "table/row_adagrad.h"
#include "comm/cpu/shared_updates.h"
#include "comm/cuda/shared_updates.h"

namespace frugal::emulated_shared_rows {
namespace {

constexpr std::int64_t kTable = 15, kRows = 13;
constexpr float kRate = 0.25f;

// A rank's step: its rows. Rows that other ranks use, too, leave as gradients.
struct Rank {
  std::vector<std::int64_t> ids, target;
  std::vector<RowDestination> leave;
  std::int32_t used = 0;
  std::vector<std::int32_t> offset[kMaxEntries];
  std::vector<float> records, staging;

  SharedRows rows() const {
    return {ids.data(), leave.data(), target.data(), &used, {offset[0].data(), offset[1].data()}};
  }
};

struct Step {
  std::int64_t dim, stride;
  std::vector<float> table;
  std::vector<Rank> ranks;

  Step(int count, std::int64_t dim, std::mt19937& random) : dim(dim), stride((dim + 4) / 4 * 4), ranks(count) {
    std::normal_distribution<float> normal;
    table.resize(kTable * stride);
    for (float& value : table) value = std::abs(normal(random));
    std::vector<int> users(kTable);
    for (Rank& rank : ranks)
      for (std::int64_t id = 0; id < kTable && rank.ids.size() + 1 < kRows; ++id)
        if (random() % 2) rank.ids.push_back(id), ++users[id];
    for (Rank& rank : ranks) {
      rank.used = static_cast<std::int32_t>(rank.ids.size());
      for (auto& offset : rank.offset) offset = {0};
      for (std::int32_t u = 0; u < rank.used; ++u) {
        const bool shared = users[rank.ids[u]] > 1;
        rank.leave.push_back(shared ? RowDestination::kGradient : RowDestination::kHostRow);
        rank.target.push_back(shared ? static_cast<std::int64_t>(rank.staging.size()) : rank.ids[u]);
        for (auto& offset : rank.offset) {
          const int occurrences = random() % 4;
          offset.push_back(offset.back() + occurrences);
          for (std::int64_t i = 0; shared && i < occurrences * stride; ++i) rank.staging.push_back(normal(random));
        }
        rank.records.insert(rank.records.end(), &table[rank.ids[u] * stride], &table[rank.ids[u] * stride] + stride);
      }
      rank.ids.resize(kRows), rank.target.resize(kRows), rank.leave.resize(kRows, RowDestination::kCache);
      for (auto& offset : rank.offset) offset.resize(kRows + 1, offset.back());
      rank.records.resize(kRows * stride), rank.staging.resize(rank.staging.size() + 1);
    }
  }

  SharedMemory memory(int rank, std::vector<float>& to) {
    SharedMemory memory{dim, stride, ranks[rank].records.data(), to.data(), {}};
    for (std::size_t r = 0; r < ranks.size(); ++r) memory.staging[r] = ranks[r].staging.data();
    return memory;
  }

  std::vector<float> by_plain_loops() const {
    std::vector<float> after = table;
    for (std::int64_t id = 0; id < kTable; ++id) {
      struct Gradients {
        const float* next;
        std::int32_t count[kMaxEntries];
      };
      std::vector<Gradients> all;
      for (const Rank& rank : ranks)
        for (std::int32_t u = 0; u < rank.used; ++u)
          if (rank.ids[u] == id && rank.leave[u] == RowDestination::kGradient)
            all.push_back({&rank.staging[rank.target[u]],
                           {rank.offset[0][u + 1] - rank.offset[0][u], rank.offset[1][u + 1] - rank.offset[1][u]}});
      float* const row = &after[id * stride];
      for (int e = 0; e < kMaxEntries && !all.empty(); ++e) {
        for (const Gradients& each : all)
          for (int k = 0; k < each.count[e]; ++k) row[dim] += mean_square(each.next + k * stride, dim);
        for (Gradients& each : all)
          for (int k = 0; k < each.count[e]; ++k, each.next += stride)
            for (std::int64_t i = 0; i < dim; ++i)
              row[i] += -kRate * each.next[i] / (std::sqrt(row[dim]) + 1e-10f);
      }
    }
    return after;
  }
};

class EmulatedSharedRows : public ::testing::TestWithParam<std::tuple<int, bool>> {};
INSTANTIATE_TEST_SUITE_P(Ranks, EmulatedSharedRows, ::testing::Combine(::testing::Values(2, 3, 8), ::testing::Bool()));

TEST_P(EmulatedSharedRows, AreThoseOfPlainLoops) {
  const auto [count, near] = GetParam();
  const SharedPart part{kRows};
  std::mt19937 random(count);
  for (const std::int64_t dim : {3, 32, 150}) {
    Step step(count, dim, random);
    std::vector<std::vector<float>> parts(count, std::vector<float>(part.floats(), 7.0f));
    std::vector<std::vector<std::int32_t>> on_cpu(count, std::vector<std::int32_t>(part.floats()));
    std::vector<std::vector<float>> fetched(count * count, std::vector<float>(part.floats(), 9.0f));
    std::vector<cuda::DeviceExchange> exchanges(count);
    std::vector<const std::int32_t*> of_ranks;
    for (int rank = 0; rank < count; ++rank) {
      exchanges[rank].rank = rank, exchanges[rank].ranks = count, exchanges[rank].near = near;
      for (int other = 0; other < count; ++other) {
        exchanges[rank].scores.of[other] = parts[other].data();
        exchanges[rank].scores.here[other] =
            near || other == rank ? parts[other].data() : fetched[rank * count + other].data();
      }
      exchanges[rank].scores.own.own = parts[rank].data();
      of_ranks.push_back(on_cpu[rank].data());
      cuda::put_shared(exchanges[rank], part, step.ranks[rank].rows(), 0);
      cpu::put_shared(part, step.ranks[rank].rows(), on_cpu[rank].data());
    }
    std::vector<float> found = step.table, found_on_cpu = step.table;
    for (int rank = 0; rank < count; ++rank) {
      const SharedRows rows = step.ranks[rank].rows();
      cuda::apply_shared(exchanges[rank], part, rows, step.memory(rank, found), kRate, 0);
      cpu::apply_shared(part, rank, of_ranks, rows, step.memory(rank, found_on_cpu), kRate);
    }
    const std::vector<float> expected = step.by_plain_loops();
    EXPECT_NE(expected, step.table);
    EXPECT_EQ(found, expected) << dim << " floats";
    EXPECT_EQ(found_on_cpu, expected) << dim << " floats";
  }
}

}  // namespace
}  // namespace frugal::emulated_shared_rows
