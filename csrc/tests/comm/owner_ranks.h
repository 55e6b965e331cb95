// Ranks that move rows for each other, in one process: their buffers, and what a plan says of a few steps.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <vector>

#include "comm/owner_transfer.h"

namespace frugal::owner_ranks {

inline constexpr int kStepsThere = 3;  // one is prefetched, one computes, one is written back

// The rows of a step, as a planner without a cache gives them out: read from the slot where one of the steps before has
// left them, else from the host, and left in the step's own slots.
struct PlannedStep {
  std::vector<std::int64_t> rows, target;
  std::vector<std::int32_t> source;
  std::vector<RowDestination> leave;

  RowReads reads() const { return {rows.data(), source.data(), static_cast<std::int64_t>(rows.size())}; }
  RowWriteBacks write_backs() const {
    return {rows.data(), leave.data(), target.data(), static_cast<std::int64_t>(rows.size())};
  }
};

inline std::vector<PlannedStep> plan(int steps, std::int64_t table_rows, std::int64_t step_rows, unsigned seed) {
  std::mt19937 random(seed);
  std::map<std::int64_t, std::pair<int, std::int64_t>> last;  // by row: the step that used it, and the slot
  std::vector<PlannedStep> planned(static_cast<std::size_t>(steps));
  for (int k = 0; k < steps; ++k) {
    std::vector<std::int64_t> all(static_cast<std::size_t>(table_rows));
    for (std::int64_t row = 0; row < table_rows; ++row) all[static_cast<std::size_t>(row)] = row;
    std::shuffle(all.begin(), all.end(), random);
    all.resize(static_cast<std::size_t>(step_rows));
    std::sort(all.begin(), all.end());
    PlannedStep& step = planned[static_cast<std::size_t>(k)];
    for (const std::int64_t row : all) {
      const std::int64_t slot = k % kStepsThere * step_rows + static_cast<std::int64_t>(step.rows.size());
      const auto found = last.find(row);
      const bool flies = found != last.end() && k - found->second.first < kStepsThere;
      step.source.push_back(flies ? static_cast<std::int32_t>(found->second.second) : kFromHost);
      step.rows.push_back(row);
      step.target.push_back(slot);
      step.leave.push_back(RowDestination::kWriteBackBuffer);
      last[row] = {k, slot};
    }
  }
  return planned;
}

// Tables, slots, records and words of all ranks.
class Ranks {
 public:
  Ranks(int ranks, const RowLayout& layout, std::int64_t table_rows, std::int64_t step_rows)
      : layout(layout), host(static_cast<std::size_t>(table_rows * ranks * layout.stride)), ranks_(ranks) {
    const std::int64_t record_stride = memory().record_stride();
    for (int rank = 0; rank < ranks; ++rank) {
      words_.emplace_back(2 * kMostRanks);
      slots.emplace_back(static_cast<std::size_t>(kStepsThere * step_rows * layout.stride), -1.0f);
      for (int turn = 0; turn < kStepsThere; ++turn)
        records[turn].emplace_back(static_cast<std::size_t>(step_rows * record_stride), -1.0f);
    }
  }

  RowMemory memory() {
    return {layout.dim, layout.stride, host.data(), nullptr, nullptr, layout.state, layout.element};
  }

  OwnerTransferRows rows(int rank, const OwnerTransferRules& rules = {}) {
    OwnerTransferRows rows{memory(), words(rank, 0), words(rank, kMostRanks), {}, rules};
    for (int each = 0; each < ranks_; ++each) rows.cache[each] = slots[static_cast<std::size_t>(each)].data();
    return rows;
  }

  OwnerTransferRecords records_of(int step) {
    OwnerTransferRecords found{};
    for (int rank = 0; rank < ranks_; ++rank)
      found.of[rank] = records[step % kStepsThere][static_cast<std::size_t>(rank)].data();
    return found;
  }

  // What a rank hears of all others from now on, of either kind.
  void announce_all(std::uint64_t number) {
    for (auto& each : words_) std::fill(each.begin(), each.end(), number);
  }

  const RowLayout layout;
  std::vector<float> host;
  std::vector<std::vector<float>> slots;                 // by rank
  std::vector<std::vector<float>> records[kStepsThere];  // by rank
  std::uint32_t failed = 0;

 private:
  RankWords words(int rank, int first) {
    RankWords found{rank, ranks_, {}, {}, &failed};
    for (int other = 0; other < ranks_; ++other) {
      found.tell[other] = &words_[static_cast<std::size_t>(other)][static_cast<std::size_t>(first + rank)];
      found.hear[other] = &words_[static_cast<std::size_t>(rank)][static_cast<std::size_t>(first + other)];
    }
    return found;
  }

  const int ranks_;
  std::vector<std::vector<std::uint64_t>> words_;  // by rank
};

}  // namespace frugal::owner_ranks
