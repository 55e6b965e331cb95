// Scores of the rows in a cache's slots, in small sets, and which row of a set makes way.
//
// A row may lie in the set that is its remainder by the number of sets; a cache as large as the table holds all of it.
// The lowest score of a set goes; among equals the first one from a slot on that changes with time. A newcomer must
// score more than the row that it evicts, and a row touched at the current time stays. A set is two lines of memory, of
// which the first mostly says that a newcomer scores too little.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <limits>
#include <stdexcept>

#include "base/huge_pages.h"
#include "engine/cache_policy.h"

namespace frugal {

class ScoredSets {
 public:
  using Slot = std::int32_t;
  using Score = std::int32_t;  // >= 0
  static constexpr int kSlotBytes = 5;  // a set's two lines hold its scores and which of them were touched

  // rows: of the table, >= 1. slots >= 1 (throws std::invalid_argument otherwise), cut to `rows`.
  ScoredSets(std::int64_t rows, std::int64_t slots)
      : slots_(slots < 1 ? throw std::invalid_argument("a cache needs at least one slot")
                         : std::min({rows, slots, std::int64_t{std::numeric_limits<Slot>::max()}})),
        sets_(static_cast<std::size_t>((slots_ + kMostWays - 1) / kMostWays)),
        ways_(slots_ / static_cast<std::int64_t>(sets_.size())),
        larger_sets_(slots_ % static_cast<std::int64_t>(sets_.size())) {
    for (std::size_t s = 0; s < sets_.size(); ++s)
      std::fill_n(sets_[s].score.begin(), first_slot(s + 1) - first_slot(s), kFree);
  }

  std::int64_t slots() const { return slots_; }

  // Asks for what insert() reads to reject a row, as it mostly does.
  void prefetch(std::int64_t row) const { __builtin_prefetch(&sets_[set_of(row)], 1); }
  // For touch().
  void prefetch_touch(std::int64_t row, Slot slot) const {
    const std::size_t set = set_of(row);
    __builtin_prefetch(&sets_[set], 1);
    __builtin_prefetch(&sets_[set].score[static_cast<std::size_t>(slot - first_slot(set))], 1);
  }

  // `row`, which lies in `slot`, is touched and has another score.
  void touch(std::int64_t row, Slot slot, Score score, std::int64_t time) {
    const std::size_t set = set_of(row);
    sets_[set].put(slot - first_slot(set), score, time);
  }

  // A row that is not there: its slot, from which it may evict another row, or kRejected.
  Slot insert(std::int64_t row, Score score, std::int64_t time) {
    const std::size_t set = set_of(row);
    if (score <= sets_[set].lower_bound) return kRejected;
    const int way = sets_[set].victim(score, time);
    if (way < 0) return kRejected;
    sets_[set].put(way, score, time);
    return first_slot(set) + way;
  }

  void release(std::int64_t row, Slot slot) {
    const std::size_t set = set_of(row);
    sets_[set].free(slot - first_slot(set));
  }

 private:
  static constexpr int kMostWays = 29;                               // of a set
  static constexpr Score kFree = -1;                                 // of a free slot
  static constexpr Score kNone = std::numeric_limits<Score>::max();  // of one that is not there

  struct alignas(128) Set {
    Score lower_bound = kFree;  // no score is below
    std::uint32_t time = 0;     // lower half of the last touch
    std::uint32_t touched = 0;  // then, a bit for each slot
    std::array<Score, kMostWays> score = filled();

    static constexpr std::array<Score, kMostWays> filled() {
      std::array<Score, kMostWays> scores{};
      scores.fill(kNone);
      return scores;
    }

    std::uint32_t touched_at(std::int64_t now) const { return time == static_cast<std::uint32_t>(now) ? touched : 0; }
    void put(int way, Score score_there, std::int64_t now) {
      touched = touched_at(now) | 1u << way;
      time = static_cast<std::uint32_t>(now);
      score[static_cast<std::size_t>(way)] = score_there;
      lower_bound = std::min(lower_bound, score_there);
    }
    void free(int way) {
      touched &= ~(1u << way);
      score[static_cast<std::size_t>(way)] = lower_bound = kFree;
    }

    // The slot whose row a newcomer of `newcomer` evicts; -1 if it evicts none. Without branches on the scores.
    int victim(Score newcomer, std::int64_t now) {
      const std::uint32_t stay = touched_at(now);
      Score goes = kNone, lowest = kNone;
      for (int way = 0; way < kMostWays; ++way) {
        const Score there = score[static_cast<std::size_t>(way)];
        lowest = std::min(lowest, there);
        goes = std::min(goes, stay >> way & 1 ? kNone : there);
      }
      lower_bound = lowest;
      if (newcomer <= goes) return -1;
      std::uint32_t equals = 0;
      for (int way = 0; way < kMostWays; ++way)
        equals |= static_cast<std::uint32_t>(score[static_cast<std::size_t>(way)] == goes) << way;
      equals &= ~stay;
      const std::uint32_t behind = equals & ~0u << now % kMostWays;
      return std::countr_zero(behind != 0 ? behind : equals);
    }
  };
  static_assert(sizeof(Set) == 128);

  std::size_t set_of(std::int64_t row) const {
    return static_cast<std::size_t>(static_cast<std::uint64_t>(row) % sets_.size());
  }
  Slot first_slot(std::size_t set) const {  // the first few sets have one more
    const auto s = static_cast<std::int64_t>(set);
    return static_cast<Slot>(s * ways_ + std::min(s, larger_sets_));
  }

  const std::int64_t slots_;
  LargeArray<Set> sets_;
  const std::int64_t ways_, larger_sets_;
};

}  // namespace frugal
