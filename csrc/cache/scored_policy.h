// The engine's cache policies that evict by score: LFU, its variant by epochs, and next use.
//
// Next use is Belady's rule as far as the lookahead sees: the row whose next use is furthest away goes first. Rows that
// no step in sight uses are all equally far, so among them the least often used goes. Whatever comes in has to be worth
// more than what it puts out. Uses of all rows are counted, cached or not, else no newcomer could ever show that it is
// worth a place.
#pragma once

#include <cstdint>

#include "cache/scored_sets.h"
#include "engine/cache_policy.h"

namespace frugal {

enum class Eviction { kLfu, kEpochLfu, kNextUse };

class ScoredPolicy final : public CachePolicy {
 public:
  // rows: of the table. slots >= 1, cut to `rows`. epoch_steps >= 1: steps of an epoch, for epoch_lfu.
  ScoredPolicy(std::int64_t rows, std::int64_t slots, Eviction eviction, std::int64_t epoch_steps = kEpochSteps);

  static constexpr std::int64_t kEpochSteps = 1000;

  std::int64_t slots() const override { return sets_.slots(); }
  bool wants_next_use() const override { return eviction_ == Eviction::kNextUse; }
  void touch(std::int64_t row, std::int32_t slot, std::int64_t step, std::int64_t next_use) override;
  void prefetch(std::int64_t row) const override;
  void prefetch_touch(std::int64_t row, std::int32_t) const override { prefetch(row); }
  std::int32_t admit(std::int64_t row, std::int64_t step, std::int64_t next_use) override;
  void release(std::int64_t row, std::int32_t slot) override;

 private:
  ScoredSets::Score score_of_use(std::int64_t row, std::int64_t step, std::int64_t next_use);

  const Eviction eviction_;
  const std::int64_t epoch_steps_;
  ScoredSets sets_;
  LargeArray<std::uint16_t> uses_;  // of each row of the table, 65535 at most
};

}  // namespace frugal
