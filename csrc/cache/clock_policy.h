// Keeps what was used last, by a clock: LRU's order as one bit per slot remembers it.
//
// A hand goes round the slots. A row that was used again since the hand last came by stays for one more round, another
// makes way. So the oldest use is known to a round, not to a step, and in return nothing is searched or sorted: the next
// victims lie side by side, and a hit writes one word.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <vector>

#include "engine/cache_policy.h"
#include "memory/huge_pages.h"

namespace frugal {

class ClockPolicy final : public CachePolicy {
 public:
  // rows: of the table. slots >= 1, cut to `rows`.
  ClockPolicy(std::int64_t rows, std::int64_t slots)
      : held_(static_cast<std::size_t>(
            slots < 1 ? throw std::invalid_argument("a cache needs at least one slot")
                      : std::min({rows, slots, std::int64_t{std::numeric_limits<std::int32_t>::max()}}))) {}

  std::int64_t slots() const override { return static_cast<std::int64_t>(held_.size()); }

  void touch(std::int64_t, std::int32_t slot, std::int64_t step, std::int64_t) override {
    advance(step);
    Held& held = held_[static_cast<std::size_t>(slot)];
    in_use_ += held.last_use != step;
    held.last_use = step;
    held.again = true;
  }

  void prefetch_slot(std::int32_t slot) const override { __builtin_prefetch(&held_[static_cast<std::size_t>(slot)], 1); }

  Admission admit(std::int64_t row, std::int64_t step, std::int64_t) override {
    advance(step);
    if (in_use_ == slots()) return {};
    ++in_use_;
    if (!free_.empty()) {
      const std::int32_t slot = free_.back();
      free_.pop_back();
      held_[static_cast<std::size_t>(slot)] = {row, step, false};
      return {slot, -1};
    }
    while (true) {  // some slot is free or not in use by this step, so that two rounds find it
      const std::size_t slot = hand_;
      hand_ = hand_ + 1 == held_.size() ? 0 : hand_ + 1;
      Held& held = held_[slot];
      if (held.last_use == step) continue;
      if (held.again) {
        held.again = false;
        continue;
      }
      const Admission admission{static_cast<std::int32_t>(slot), held.row};
      held = {row, step, false};
      return admission;
    }
  }

  void release(std::int64_t, std::int32_t slot) override {
    Held& held = held_[static_cast<std::size_t>(slot)];
    in_use_ -= held.last_use == now_;
    held = {};
    free_.push_back(slot);
  }

 private:
  struct Held {
    std::int64_t row = -1;  // -1: never taken, or free
    std::int64_t last_use : 63 = -1;
    bool again : 1 = false;  // used since the hand came by
  };
  static_assert(sizeof(Held) == 16);

  void advance(std::int64_t step) {
    if (step == now_) return;
    now_ = step;
    in_use_ = 0;
  }

  LargeArray<Held> held_;           // per slot
  std::vector<std::int32_t> free_;  // slots that a row was released from
  std::size_t hand_ = 0;            // the slot that it comes to next
  std::int64_t now_ = -1;           // the step of the last call
  std::int64_t in_use_ = 0;         // slots that this step uses
};

}  // namespace frugal
