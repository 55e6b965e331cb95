// Sets and scores of a cache without a way to find: for a caller who knows which keys lie where.
//
// The engine's planner keeps a directory of all cached rows, so a policy of its own needs none: nothing here grows with
// the number of possible keys. (A slot number per key, as in DirectIndex, is 344 MB for Freebase, and each row that
// comes by touches another page of it.) Only keys that are not there may be inserted; find finds nothing.
#pragma once

#include <stdexcept>
#include <string>

#include "cache/cache_index.h"

namespace frugal {

class SetIndex final : public CacheIndex {
 public:
  // Sets matter for evictions alone here, so they are small: looking for the lowest of 32 scores is four times cheaper
  // than of 128, and the hit share is nearly the same (docs/cache.md).
  static constexpr Slot kSetWays = 32;

  // keys 0 .. keys - 1, keys >= 1. A capacity above `keys` is cut to it.
  SetIndex(Key keys, Slot capacity, ScorePolicy policy)
      : CacheIndex(static_cast<Slot>(std::min<Key>(capacity, keys)), policy, kSetWays), keys_(keys) {}

  // Asks for what inserting the key will read: its set and the scores there.
  void prefetch(Key key) const override { prefetch_set(set_of(key)); }

  // The key in `slot`, which is taken, leaves.
  void free(Slot slot) { vacate(slot, set_of(key_at(slot))); }

 private:
  Key checked(Key key) const override {
    if (key < 0 || key >= keys_)
      throw std::out_of_range("key " + std::to_string(key) + " is not in [0, " + std::to_string(keys_) + ")");
    return key;
  }
  std::int64_t set_of(Key key) const override { return key % sets(); }
  Slot locate(Key) const override { return kNoSlot; }
  void placed(Key, Slot) override {}
  void removed(Key, Slot) override {}

  const Key keys_;
};

}  // namespace frugal
