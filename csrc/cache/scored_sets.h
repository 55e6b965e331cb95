// Scores of the rows in a cache's slots, in small sets, and which row of a set makes way: the policies' own index.
//
// The planner's directory knows where each row lies, so nothing here finds a row, and nothing grows with the number of
// possible rows. (A slot number per row, as DirectIndex has, is 344 MB for Freebase, and each row that comes by touches
// another page of it.) A row may lie in the set that is its remainder by the number of sets; a cache as large as the
// table holds all of it. The lowest score of a set goes; among equals the one touched longest ago, then the one in the
// lowest slot. A newcomer must score more than what it puts out, and a row touched at the current time stays.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <stdexcept>

#include "engine/cache_policy.h"
#include "memory/huge_pages.h"

namespace frugal {

class ScoredSets {
 public:
  using Slot = std::int32_t;
  using Score = std::uint32_t;

  // rows: of the table, >= 1. slots >= 1 (throws std::invalid_argument otherwise), cut to `rows`.
  ScoredSets(std::int64_t rows, std::int64_t slots)
      : slots_(slots < 1 ? throw std::invalid_argument("a cache needs at least one slot")
                         : std::min({rows, slots, std::int64_t{std::numeric_limits<Slot>::max()}})),
        sets_((slots_ + kWays - 1) / kWays),
        ways_(slots_ / sets_),
        larger_sets_(slots_ % sets_),
        ranks_(static_cast<std::size_t>(slots_)),
        rows_(static_cast<std::size_t>(slots_), kNoRow),
        set_(static_cast<std::size_t>(sets_)) {}

  std::int64_t slots() const { return slots_; }
  Score score(Slot slot) const { return static_cast<Score>(ranks_[index(slot)] >> 32); }

  // Asks for what insert() reads first: mostly that is all.
  void prefetch(std::int64_t row) const { __builtin_prefetch(&set_[set_of(row)]); }
  void prefetch_slot(Slot slot) const { __builtin_prefetch(&ranks_[index(slot)], 1); }

  // The row in `slot`, which is taken, is touched and has another score.
  void touch(Slot slot, Score score, std::int64_t time) {
    if (score < this->score(slot)) lower_bound(set_of_slot(slot), score);
    ranks_[index(slot)] = rank(score, time);
  }

  // A row that is not there: a free slot, an eviction, or a rejection.
  Admission insert(std::int64_t row, Score score, std::int64_t time) {
    const std::size_t set = set_of(row);
    const Slot first = first_slot(set), last = first_slot(set + 1);
    Admission admission;
    if (set_[set].taken < last - first) {
      admission.slot = free_slot(set, first, last);
      ++set_[set].taken;
    } else {
      if (score <= set_[set].lower_bound) return {};
      admission.slot = victim(set, first, last, score, time);
      if (!admission.accepted()) return {};
      admission.evicted_row = rows_[index(admission.slot)];
    }
    rows_[index(admission.slot)] = row;
    ranks_[index(admission.slot)] = rank(score, time);
    lower_bound(set, score);
    return admission;
  }

  void release(Slot slot) {
    --set_[set_of_slot(slot)].taken;
    rows_[index(slot)] = kNoRow;
  }

 private:
  // Looking for the lowest of 32 scores is four times cheaper than of 128, and the hit share is nearly the same.
  static constexpr std::int64_t kWays = 32, kNoRow = -1;

  struct Set {
    Slot taken = 0;
    Score lower_bound = std::numeric_limits<Score>::max();  // no score is below: what scores no more is rejected at once
  };

  // What is compared: the score, then the time of the last touch (its lower half: a tie is decided otherwise after 2^32
  // steps).
  static std::uint64_t rank(Score score, std::int64_t time) {
    return std::uint64_t{score} << 32 | static_cast<std::uint32_t>(time);
  }
  static std::size_t index(Slot slot) { return static_cast<std::size_t>(slot); }
  std::size_t set_of(std::int64_t row) const {
    return static_cast<std::size_t>(static_cast<std::uint64_t>(row) % static_cast<std::uint64_t>(sets_));
  }
  Slot first_slot(std::size_t set) const {  // the first few sets have one more
    const auto s = static_cast<std::int64_t>(set);
    return static_cast<Slot>(s * ways_ + std::min(s, larger_sets_));
  }
  std::size_t set_of_slot(Slot slot) const {
    const std::int64_t of_larger = larger_sets_ * (ways_ + 1);
    return static_cast<std::size_t>(slot < of_larger ? slot / (ways_ + 1) : (slot - larger_sets_) / ways_);
  }
  void lower_bound(std::size_t set, Score score) { set_[set].lower_bound = std::min(set_[set].lower_bound, score); }

  Slot free_slot(std::size_t set, Slot first, Slot last) const {
    // Sets fill from the front and few rows are released, so the slot after those taken is nearly always free.
    const Slot likely = first + set_[set].taken;
    if (rows_[index(likely)] == kNoRow) return likely;
    return static_cast<Slot>(std::find(rows_.begin() + first, rows_.begin() + last, kNoRow) - rows_.begin());
  }

  // Of a full set: the slot whose row a newcomer of `score` puts out; -1 if it puts out none. Learns the lower bound.
  Slot victim(std::size_t set, Slot first, Slot last, Score score, std::int64_t time) {
    constexpr std::uint64_t kHighest = std::numeric_limits<std::uint64_t>::max();
    std::uint64_t lowest = kHighest, goes = kHighest;
    for (Slot slot = first; slot < last; ++slot) {  // without branches on the data, four at a time
      const std::uint64_t rank = ranks_[index(slot)];
      const bool stays = static_cast<std::uint32_t>(rank) == static_cast<std::uint32_t>(time);
      lowest = std::min(lowest, rank);
      goes = std::min(goes, stays ? kHighest : rank);
    }
    set_[set].lower_bound = static_cast<Score>(lowest >> 32);
    if (goes == kHighest || score <= goes >> 32) return -1;
    return static_cast<Slot>(std::find(ranks_.begin() + first, ranks_.begin() + last, goes) - ranks_.begin());
  }

  const std::int64_t slots_, sets_, ways_, larger_sets_;
  LargeArray<std::uint64_t> ranks_;  // per slot
  LargeArray<std::int64_t> rows_;    // per slot
  LargeArray<Set> set_;
};

}  // namespace frugal
