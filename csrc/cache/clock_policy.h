// Keeps what was used last, by a clock: LRU's order as one bit per slot remembers it.
//
// A hand goes round the slots, one round a step at most. A row that was used again since the hand last came by stays for
// one more round, another makes way. So the oldest use is known to a round, not to a step, and in return nothing is
// searched or sorted: the next victims lie side by side, and a hit sets a bit.
#pragma once

#include <algorithm>
#include <bit>
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
      : slots_(slots < 1 ? throw std::invalid_argument("a cache needs at least one slot")
                         : std::min({rows, slots, std::int64_t{std::numeric_limits<std::int32_t>::max()}})),
        again_(static_cast<std::size_t>((slots_ + 63) / 64)) {}

  std::int64_t slots() const override { return slots_; }

  void touch(const RowUse&, std::int32_t slot) override { word_of(slot) |= bit_of(slot); }

  // What the step has touched the hand spares, and where it has taken rows in it does not come by again.
  std::int32_t admit(const RowUse& use) override {
    if (use.step != now_) passed_ = 0;
    now_ = use.step;
    if (free_.empty()) return next_victim();
    const std::int32_t slot = free_.back();
    free_.pop_back();
    word_of(slot) |= bit_of(slot);  // the hand may still come by
    return slot;
  }

  void release(std::int64_t, std::int32_t slot) override { free_.push_back(slot); }

 private:
  static std::uint64_t bit_of(std::int64_t slot) { return std::uint64_t{1} << slot % 64; }
  std::uint64_t& word_of(std::int64_t slot) { return again_[static_cast<std::size_t>(slot / 64)]; }

  std::int32_t next_victim() {
    while (passed_ < slots_) {
      std::uint64_t& word = word_of(hand_);
      const std::int64_t end = std::min({hand_ / 64 * 64 + 64, slots_, hand_ + slots_ - passed_});
      const std::uint64_t ahead = ~std::uint64_t{0} >> (64 - (end - hand_)) << hand_ % 64;
      const std::uint64_t victims = ahead & ~word;
      const std::int64_t slot = victims != 0 ? hand_ / 64 * 64 + std::countr_zero(victims) : end;
      word &= ~ahead | ~(victims - 1);  // spared those before the victim
      const std::int64_t next = std::min(slot + 1, end);
      passed_ += next - hand_;
      hand_ = next == slots_ ? 0 : next;
      if (victims != 0) return static_cast<std::int32_t>(slot);
    }
    return kRejected;
  }

  const std::int64_t slots_;
  LargeArray<std::uint64_t> again_;  // a bit per slot: used again since the hand came by
  std::vector<std::int32_t> free_;   // slots that a row was released from
  std::int64_t hand_ = 0;            // the slot that it comes to next
  std::int64_t now_ = -1;            // the step of the last admission
  std::int64_t passed_ = 0;          // slots that the hand has passed in this step
};

}  // namespace frugal
