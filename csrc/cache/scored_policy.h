// The engine's cache policies that evict by score: LFU, its variant by epochs, and next use.
//
// Next use is Belady's rule as far as the lookahead sees: the row whose next use is furthest away goes first. Rows that
// no step in sight uses are all equally far, so among them the least often used goes. Whatever comes in has to be worth
// more than what it puts out; its uses have been counted before it came, else none could ever show that.
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
  bool wants_count() const override { return true; }
  void touch(const RowUse& use, std::int32_t slot) override { sets_.touch(use.row, slot, score(use), use.step); }
  void prefetch(std::int64_t row) const override { sets_.prefetch(row, eviction_ == Eviction::kEpochLfu); }
  void prefetch_touch(std::int64_t row, std::int32_t slot) const override { sets_.prefetch_touch(row, slot); }
  std::int32_t admit(const RowUse& use) override { return sets_.insert(use.row, score(use), use.step); }
  void release(std::int64_t row, std::int32_t slot) override { sets_.release(row, slot); }

 private:
  ScoredSets::Score score(const RowUse& use) const;

  const Eviction eviction_;
  const std::int64_t epoch_steps_;
  ScoredSets sets_;
};

}  // namespace frugal
