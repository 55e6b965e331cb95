// Two cache policies that need no index: enough for tests, stress and a static hot set.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/cache_policy.h"
#include "engine/row_map.h"

namespace frugal {

// A fixed set of rows, each with its own slot: taken in when first used, never evicted.
class StaticHotSet final : public CachePolicy {
 public:
  explicit StaticHotSet(std::span<const std::int64_t> rows) : slot_of_(rows.size()), slots_(static_cast<std::int64_t>(rows.size())) {
    for (std::size_t i = 0; i < rows.size(); ++i) slot_of_[rows[i]] = static_cast<std::int32_t>(i);
  }
  std::int64_t slots() const override { return slots_; }
  void touch(std::int64_t, std::int32_t, std::int64_t, std::int64_t) override {}
  Admission admit(std::int64_t row, std::int64_t, std::int64_t) override {
    const std::int32_t* slot = slot_of_.find(row);
    return slot == nullptr ? Admission{} : Admission{*slot, -1};
  }
  void release(std::int64_t, std::int32_t) override {}

 private:
  RowMap<std::int32_t> slot_of_;
  std::int64_t slots_;
};

// Rejects at random and evicts round-robin: makes every kind of plan happen, in tests.
class RandomAdmission final : public CachePolicy {
 public:
  RandomAdmission(std::int64_t slots, double reject_share, std::uint64_t seed)
      : rows_(static_cast<std::size_t>(slots)), random_(seed * 2 + 1),
        reject_below_(static_cast<std::uint64_t>(reject_share * 4294967296.0)) {}

  std::int64_t slots() const override { return static_cast<std::int64_t>(rows_.size()); }
  void touch(std::int64_t, std::int32_t slot, std::int64_t step, std::int64_t) override {
    rows_[static_cast<std::size_t>(slot)].last_use = step;
  }
  Admission admit(std::int64_t row, std::int64_t step, std::int64_t) override {
    random_ = random_ * 6364136223846793005ull + 1442695040888963407ull;
    if ((random_ >> 32) < reject_below_) return {};
    for (std::size_t tried = 0; tried < rows_.size(); ++tried) {
      const std::size_t slot = hand_;
      hand_ = (hand_ + 1) % rows_.size();
      Held& held = rows_[slot];
      if (held.row >= 0 && held.last_use == step) continue;
      const Admission admission{static_cast<std::int32_t>(slot), held.row};
      held = {row, step};
      return admission;
    }
    return {};
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
