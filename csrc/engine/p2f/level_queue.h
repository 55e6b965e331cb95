// The two-level priority queue of P2F: level 1 is a ring of due steps and one level for "never", level 2 the items of a
// level.
//
// Due steps of queued items lie in a window of `span` steps that only moves forward, so a level is found by its step
// modulo the ring and nothing is ever sorted. A level is an array in order of insertion; an item that leaves early
// leaves a hole, and a level that is mostly holes is closed up. So enqueue, move and take touch one place in an array
// and one per item: O(1), amortised; finding the front looks at the ring's words, a bit for each level, once at most.
// When to use: small integer priorities in a moving window, one owner thread. When not: arbitrary keys. Items are small
// integers (indices into the owner's pool). Allocates only when a level or the item index is the largest so far.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/cache_policy.h"

namespace frugal {

class LevelQueue {
 public:
  // span >= 1: no two finite due steps of queued items differ by span or more.
  explicit LevelQueue(std::int64_t span)
      : ring_(static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(span < 64 ? 64 : span)))),
        levels_(static_cast<std::size_t>(ring_ + 1)),
        occupied_(static_cast<std::size_t>(ring_ / 64)) {}

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  std::size_t bytes() const {
    std::size_t bytes = places_.capacity() * sizeof(Place) + levels_.size() * sizeof(Level) + occupied_.size() * 8;
    for (const Level& level : levels_) bytes += level.items.capacity() * sizeof(std::int32_t);
    return bytes;
  }

  // No item is due before `step` any more: the window starts here.
  void advance(std::int64_t step) { base_ = step > base_ ? step : base_; }

  // Puts an item that is not queued behind the others of its level. due < base counts as base; kNever is the last
  // level.
  void enqueue(std::int32_t item, std::int64_t due) {
    const auto i = static_cast<std::size_t>(item);
    if (i >= places_.size()) places_.resize(i + 1 + places_.size() / 2);
    const std::int32_t number = level_of(due);
    Level& level = levels_[static_cast<std::size_t>(number)];
    places_[i] = {number, static_cast<std::int32_t>(level.items.size())};
    if (level.live++ == 0 && number < ring_) occupied_[static_cast<std::size_t>(number) / 64] |= bit(number);
    level.items.push_back(item);
    ++size_;
  }

  // Gives a queued item another due step.
  void move(std::int32_t item, std::int64_t due) {
    remove(item);
    enqueue(item, due);
  }

  // Takes a queued item out.
  void remove(std::int32_t item) {
    const Place place = places_[static_cast<std::size_t>(item)];
    Level& level = levels_[static_cast<std::size_t>(place.level)];
    level.items[static_cast<std::size_t>(place.index)] = kHole;
    --size_;
    if (--level.live == 0)
      clear(place.level);
    else if (level.items.size() > 4 * level.live + 64)
      close_up(level);
  }

  // The smallest due step of a queued item; kNever if all are due never, or if there is none.
  std::int64_t front() const {
    const std::int64_t start = base_ & (ring_ - 1);
    const std::int64_t words = ring_ / 64;
    for (std::int64_t n = 0; n <= words; ++n) {
      const std::int64_t word = ((start / 64) + n) & (words - 1);
      std::uint64_t bits = occupied_[static_cast<std::size_t>(word)];
      if (n == 0) bits &= ~0ull << (start % 64);
      if (n == words) bits &= ~(~0ull << (start % 64));
      if (bits != 0) return base_ + ((word * 64 + std::countr_zero(bits) - start) & (ring_ - 1));
    }
    return kNever;
  }

  // Appends up to `limit` items of one level, oldest first, to `items` and takes them out. Returns how many.
  std::size_t take(std::int64_t due, std::size_t limit, std::vector<std::int32_t>& items) {
    const std::int32_t number = level_of(due);
    Level& level = levels_[static_cast<std::size_t>(number)];
    std::size_t taken = 0;
    while (taken < limit && taken < level.live) {
      const std::int32_t item = level.items[level.first++];
      if (item == kHole) continue;
      items.push_back(item);
      ++taken;
    }
    level.live -= taken;
    size_ -= taken;
    if (level.live == 0)
      clear(number);
    else if (level.first > level.live + 64)
      close_up(level);
    return taken;
  }

 private:
  static constexpr std::int32_t kHole = -1;
  struct Place {
    std::int32_t level, index;
  };
  struct Level {
    std::vector<std::int32_t> items;  // in order of insertion, with holes
    std::size_t first = 0;            // what is before has been taken
    std::size_t live = 0;             // items that are queued
  };

  void clear(std::int32_t number) {
    Level& level = levels_[static_cast<std::size_t>(number)];
    level.items.clear();
    level.first = 0;
    if (number < ring_) occupied_[static_cast<std::size_t>(number) / 64] &= ~bit(number);
  }

  void close_up(Level& level) {
    std::size_t kept = 0;
    for (std::size_t i = level.first; i < level.items.size(); ++i) {
      const std::int32_t item = level.items[i];
      if (item == kHole) continue;
      places_[static_cast<std::size_t>(item)].index = static_cast<std::int32_t>(kept);
      level.items[kept++] = item;
    }
    level.items.resize(kept);
    level.first = 0;
  }

  std::int32_t level_of(std::int64_t due) const {
    if (due == kNever) return static_cast<std::int32_t>(ring_);
    return static_cast<std::int32_t>((due < base_ ? base_ : due) & (ring_ - 1));
  }
  static std::uint64_t bit(std::int64_t level) { return 1ull << (level & 63); }

  std::int64_t ring_;
  std::int64_t base_ = 0;
  std::size_t size_ = 0;
  std::vector<Level> levels_;
  std::vector<std::uint64_t> occupied_;  // one bit per level of the ring
  std::vector<Place> places_;            // of queued items
};

}  // namespace frugal
