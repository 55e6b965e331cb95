// The engine's cache policies that evict by score: LRU, LFU, their epoch variants, and next use.
//
// Next use is Belady's rule as far as the lookahead sees: the row whose next use is furthest away goes first. Rows that
// no step in sight uses are all equally far, so among them the least often used goes; a row that comes in without a use
// in sight has to be worth more than the one it would put out.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "cache/frequency_sketch.h"
#include "cache/set_index.h"
#include "engine/cache_policy.h"

namespace frugal {

enum class Eviction { kLru, kLfu, kEpochLru, kEpochLfu, kNextUse };

// "lru", "lfu", "epoch_lru", "epoch_lfu", "next_use"; throws std::invalid_argument for another name.
Eviction eviction_named(const std::string& name);

class ScoredPolicy final : public CachePolicy {
 public:
  // rows: of the table. slots >= 1, cut to `rows`. epoch_steps >= 1: steps of an epoch, for the epoch variants.
  ScoredPolicy(std::int64_t rows, std::int64_t slots, Eviction eviction, std::int64_t epoch_steps = kEpochSteps);

  static constexpr std::int64_t kEpochSteps = 1000;

  std::int64_t slots() const override { return index_.capacity(); }
  bool wants_next_use() const override { return eviction_ == Eviction::kNextUse; }
  void touch(std::int64_t row, std::int32_t slot, std::int64_t step, std::int64_t next_use) override;
  void prefetch(std::int64_t row) const override;
  void prefetch_slot(std::int32_t slot) const override;
  Admission admit(std::int64_t row, std::int64_t step, std::int64_t next_use) override;
  void release(std::int64_t row, std::int32_t slot) override;

 private:
  void advance(std::int64_t step);

  const Eviction eviction_;
  const std::int64_t epoch_steps_;
  SetIndex index_;
  FrequencySketch misses_;            // how often each row was offered to admit(); empty if the scores need no counts
  LargeArray<std::uint32_t> count_;  // next use: how often the row of each slot was used, as far as is known
};

}  // namespace frugal
