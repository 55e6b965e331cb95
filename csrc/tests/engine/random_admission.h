#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/cache_policy.h"

namespace frugal {

// Rejects at random and evicts round-robin: makes every kind of plan happen.
class RandomAdmission final : public CachePolicy {
 public:
  RandomAdmission(std::int64_t slots, double reject_share, std::uint64_t seed)
      : rows_(static_cast<std::size_t>(slots)),
        random_(seed * 2 + 1),
        reject_below_(static_cast<std::uint64_t>(reject_share * 4294967296.0)) {}

  std::int64_t slots() const override { return static_cast<std::int64_t>(rows_.size()); }
  void touch(const RowUse& use, std::int32_t slot) override {
    rows_[static_cast<std::size_t>(slot)].last_use = use.step;
  }
  std::int32_t admit(const RowUse& use) override {
    random_ = random_ * 6364136223846793005ull + 1442695040888963407ull;
    if ((random_ >> 32) < reject_below_) return kRejected;
    for (std::size_t tried = 0; tried < rows_.size(); ++tried) {
      const std::size_t slot = hand_;
      hand_ = (hand_ + 1) % rows_.size();
      Held& held = rows_[slot];
      if (held.row >= 0 && held.last_use == use.step) continue;
      held = {use.row, use.step};
      return static_cast<std::int32_t>(slot);
    }
    return kRejected;
  }
  void release(std::int64_t, std::int32_t slot) override { rows_[static_cast<std::size_t>(slot)] = {}; }

 private:
  struct Held {
    std::int64_t row = -1, last_use = -1;
  };
  std::vector<Held> rows_;
  std::uint64_t random_, reject_below_;
  std::size_t hand_ = 0;
};

}  // namespace frugal
