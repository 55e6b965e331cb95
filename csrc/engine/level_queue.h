// The two-level priority queue of P2F: level 1 is a ring of due steps and one level for "never", level 2 the items of a level.
//
// Due steps of queued items lie in a window of `span` steps that only moves forward, so a level is found by its step modulo
// the ring and nothing is ever sorted. enqueue, move and take are O(1); finding the front looks at span/64 words at most.
// When to use: small integer priorities in a moving window, one owner thread. When not: arbitrary keys.
// Items are small integers (indices into the owner's pool); links are kept here, densely, so the owner's records stay
// untouched by queue operations. Allocates only when an item index is the largest so far.
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
  std::size_t bytes() const { return links_.size() * sizeof(Link) + levels_.size() * sizeof(Level) + occupied_.size() * 8; }
  void reserve(std::size_t items) { links_.reserve(items); }

  // No item is due before `step` any more: the window starts here.
  void advance(std::int64_t step) { base_ = step > base_ ? step : base_; }

  // Puts an item that is not queued behind the others of its level. due < base counts as base; kNever is the last level.
  void enqueue(std::int32_t item, std::int64_t due) {
    const auto i = static_cast<std::size_t>(item);
    if (i >= links_.size()) links_.resize(i + 1);
    const std::int32_t level = level_of(due);
    Level& list = levels_[static_cast<std::size_t>(level)];
    links_[i] = {list.last, kNone, level};
    if (list.last == kNone) {
      list.first = item;
      if (level < ring_) occupied_[static_cast<std::size_t>(level) / 64] |= bit(level);
    } else {
      links_[static_cast<std::size_t>(list.last)].next = item;
    }
    list.last = item;
    ++size_;
  }

  // Gives a queued item another due step.
  void move(std::int32_t item, std::int64_t due) {
    remove(item);
    enqueue(item, due);
  }

  // Takes a queued item out.
  void remove(std::int32_t item) {
    Link& link = links_[static_cast<std::size_t>(item)];
    Level& list = levels_[static_cast<std::size_t>(link.level)];
    (link.previous == kNone ? list.first : links_[static_cast<std::size_t>(link.previous)].next) = link.next;
    (link.next == kNone ? list.last : links_[static_cast<std::size_t>(link.next)].previous) = link.previous;
    if (list.first == kNone && link.level < ring_) occupied_[static_cast<std::size_t>(link.level) / 64] &= ~bit(link.level);
    --size_;
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
    const std::int32_t level = level_of(due);
    Level& list = levels_[static_cast<std::size_t>(level)];
    std::size_t taken = 0;
    std::int32_t item = list.first;
    for (; item != kNone && taken < limit; ++taken) {
      items.push_back(item);
      item = links_[static_cast<std::size_t>(item)].next;
    }
    list.first = item;
    if (item != kNone) {
      links_[static_cast<std::size_t>(item)].previous = kNone;
    } else {
      list.last = kNone;
      if (level < ring_) occupied_[static_cast<std::size_t>(level) / 64] &= ~bit(level);
    }
    size_ -= taken;
    return taken;
  }

 private:
  static constexpr std::int32_t kNone = -1;
  struct Link {
    std::int32_t previous = kNone, next = kNone, level = kNone;
  };
  struct Level {
    std::int32_t first = kNone, last = kNone;
  };

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
  std::vector<Link> links_;
};

}  // namespace frugal
