// Keeps what was used last, by a clock: LRU's order as one bit per slot remembers it.
//
// A hand goes round the slots. A row that was used again since the hand last came by stays for one more round, another
// makes way. So the oldest use is known to a round, not to a step, and in return nothing is searched or sorted: the next
// victims lie side by side, and a hit sets two bits of arrays that a processor's cache holds.
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
        words_(static_cast<std::size_t>((slots_ + 63) / 64)) {
    if (slots_ % 64 != 0) words_.back().in_use = ~std::uint64_t{0} << slots_ % 64;  // there are no such slots
  }

  std::int64_t slots() const override { return slots_; }

  void touch(std::int64_t, std::int32_t slot, std::int64_t step, std::int64_t) override {
    use(slot, step);
    word_of(slot).again |= bit_of(slot);
  }

  std::int32_t admit(std::int64_t, std::int64_t step, std::int64_t) override {
    advance(step);
    if (static_cast<std::int64_t>(used_.size()) == slots_) return kRejected;
    std::int32_t slot;
    if (!free_.empty()) {
      slot = free_.back();
      free_.pop_back();
    } else {
      slot = next_victim();
    }
    use(slot, step);
    return slot;
  }

  void release(std::int64_t, std::int32_t slot) override {
    word_of(slot).again &= ~bit_of(slot);
    free_.push_back(slot);
  }

 private:
  // Of 64 slots, a bit each.
  struct Word {
    std::uint64_t again = 0;   // used again since the hand came by
    std::uint64_t in_use = 0;  // used by the step of the last call
  };

  static std::uint64_t bit_of(std::int64_t slot) { return std::uint64_t{1} << slot % 64; }
  Word& word_of(std::int64_t slot) { return words_[static_cast<std::size_t>(slot / 64)]; }

  // Some slot is not in use by this step, so that two rounds find it. What is in use the hand leaves as it is.
  std::int32_t next_victim() {
    while (true) {
      Word& word = word_of(hand_);
      const std::uint64_t ahead = ~std::uint64_t{0} << hand_ % 64;
      const std::uint64_t victims = ahead & ~word.again & ~word.in_use;
      if (victims != 0) {
        const std::int64_t slot = hand_ / 64 * 64 + std::countr_zero(victims);
        word.again &= ~ahead | word.in_use | ~(bit_of(slot) - 1);
        hand_ = slot + 1 == slots_ ? 0 : slot + 1;
        return static_cast<std::int32_t>(slot);
      }
      word.again &= ~ahead | word.in_use;
      hand_ = (hand_ / 64 + 1) * 64;
      if (hand_ >= slots_) hand_ = 0;
    }
  }

  void use(std::int32_t slot, std::int64_t step) {
    advance(step);
    word_of(slot).in_use |= bit_of(slot);
    used_.push_back(slot);
  }

  void advance(std::int64_t step) {
    if (step == now_) return;
    now_ = step;
    for (const std::int32_t slot : used_) word_of(slot).in_use &= ~bit_of(slot);
    used_.clear();
  }

  const std::int64_t slots_;
  LargeArray<Word> words_;
  std::vector<std::int32_t> used_;  // slots in use, each once
  std::vector<std::int32_t> free_;  // slots that a row was released from
  std::int64_t hand_ = 0;           // the slot that it comes to next
  std::int64_t now_ = -1;           // the step of the last call
};

}  // namespace frugal
