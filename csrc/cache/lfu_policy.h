// The engine's cache policy that keeps the rows which were used most often.
//
// A row that is admitted has to be used more often than the one that it evicts; its uses have been counted before it
// came, else none could ever show that.
#pragma once

#include <cstdint>

#include "cache/scored_sets.h"
#include "engine/cache_policy.h"

namespace frugal {

class LfuPolicy final : public CachePolicy {
 public:
  static constexpr int kSlotBytes = ScoredSets::kSlotBytes;

  // rows: of the table. slots >= 1 (throws std::invalid_argument otherwise), cut to `rows`.
  LfuPolicy(std::int64_t rows, std::int64_t slots) : sets_(rows, slots) {}

  std::int64_t slots() const override { return sets_.slots(); }
  bool wants_count() const override { return true; }
  void touch(const RowUse& use, std::int32_t slot) override { sets_.touch(use.row, slot, use.count, use.step); }
  void prefetch(std::int64_t row) const override { sets_.prefetch(row); }
  void prefetch_touch(std::int64_t row, std::int32_t slot) const override { sets_.prefetch_touch(row, slot); }
  std::int32_t admit(const RowUse& use) override { return sets_.insert(use.row, use.count, use.step); }
  void release(std::int64_t row, std::int32_t slot) override { sets_.release(row, slot); }

 private:
  ScoredSets sets_;
};

}  // namespace frugal
