// Keeps what was used last, by a clock: LRU's order as one bit per slot remembers it.
//
// A hand goes round the slots. A row that was used again since the hand last came by stays for one more round, another
// makes way. So the oldest use is known to a round, not to a step, and in return nothing is searched or sorted: the next
// victims lie side by side, and a hit sets two bits.
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
        words_(static_cast<std::size_t>((slots_ + kOfWord - 1) / kOfWord)) {}

  std::int64_t slots() const override { return slots_; }

  void touch(const RowUse& use, std::int32_t slot) override { hold(use.step, slot).again |= bit_of(slot); }
  void prefetch_touch(std::int64_t, std::int32_t slot) const override {
    __builtin_prefetch(&words_[static_cast<std::size_t>(slot / kOfWord)], 1);
  }

  std::int32_t admit(const RowUse& use) override {
    std::int32_t slot;
    if (step_ == use.step && in_use_ == slots_) return kRejected;
    if (free_.empty()) {
      slot = next_victim(use.step);
    } else {
      slot = free_.back();
      free_.pop_back();
    }
    hold(use.step, slot);
    return slot;
  }

  void release(std::int64_t, std::int32_t slot) override {
    word_of(slot).again &= ~bit_of(slot);
    free_.push_back(slot);
  }

 private:
  static constexpr std::int64_t kOfWord = 32;

  // Of some slots, a bit each.
  struct Word {
    std::uint32_t again = 0;   // used again since the hand came by
    std::uint32_t in_use = 0;  // used by step `step`
    std::int64_t step = -1;
  };

  static std::uint32_t bit_of(std::int64_t slot) { return std::uint32_t{1} << slot % kOfWord; }
  Word& word_of(std::int64_t slot) { return words_[static_cast<std::size_t>(slot / kOfWord)]; }

  // Some slot is not in use by this step, so that two rounds find it. What is in use the hand leaves as it is.
  std::int32_t next_victim(std::int64_t step) {
    while (true) {
      Word& word = word_of(hand_);
      const std::int64_t begin = hand_ / kOfWord * kOfWord, end = std::min(begin + kOfWord, slots_);
      const std::uint32_t in_use = word.step == step ? word.in_use : 0;
      const std::uint32_t ahead = ~std::uint32_t{0} << (hand_ - begin) & ~std::uint32_t{0} >> (kOfWord - (end - begin));
      const std::uint32_t victims = ahead & ~word.again & ~in_use;
      word.again &= ~(ahead & (victims - 1) & ~in_use);  // spared those before the victim
      const std::int64_t slot = victims != 0 ? begin + std::countr_zero(victims) : end - 1;
      hand_ = slot + 1 == slots_ ? 0 : slot + 1;
      if (victims != 0) return static_cast<std::int32_t>(slot);
    }
  }

  // The step uses the slot, for the first time.
  Word& hold(std::int64_t step, std::int32_t slot) {
    if (step_ != step) in_use_ = 0;
    step_ = step;
    ++in_use_;
    Word& word = word_of(slot);
    word.in_use = (word.step == step ? word.in_use : 0) | bit_of(slot);
    word.step = step;
    return word;
  }

  const std::int64_t slots_;
  LargeArray<Word> words_;
  std::vector<std::int32_t> free_;  // slots that a row was released from
  std::int64_t hand_ = 0;           // the slot that it comes to next
  std::int64_t step_ = -1;          // the last one
  std::int64_t in_use_ = 0;         // slots that it uses
};

}  // namespace frugal
