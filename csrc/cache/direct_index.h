// A cache index for dense keys 0 .. keys-1: one slot number per possible key, so that finding is one load.
//
// A key's set is its remainder by the number of sets. Entity ids are dense, so every set serves the same number of
// keys, and a cache that is as large as the table holds all of it.
#pragma once

#include <cstdlib>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>

#include "cache/cache_index.h"

namespace frugal {

class DirectIndex final : public CacheIndex {
 public:
  // Sets matter for evictions alone here, so they are small: looking for the lowest of 32 scores is four times cheaper
  // than of 128, and the hit share is nearly the same (docs/cache.md).
  static constexpr Slot kDirectWays = 32;

  // keys >= 1. A capacity above `keys` is cut to it. Allocates 4 bytes per key, touched only where keys come in.
  DirectIndex(Key keys, Slot capacity, ScorePolicy policy, Slot ways = kDirectWays)
      : CacheIndex(static_cast<Slot>(std::min<Key>(capacity, keys)), policy, ways),
        keys_(keys),
        slot_plus_one_(static_cast<Slot*>(std::calloc(keys, sizeof(Slot)))) {
    if (!slot_plus_one_) throw std::bad_alloc();
  }

 private:
  Key checked(Key key) const override {
    if (key < 0 || key >= keys_)
      throw std::out_of_range("key " + std::to_string(key) + " is not in [0, " + std::to_string(keys_) + ")");
    return key;
  }
  std::int64_t set_of(Key key) const override { return key % sets(); }
  Slot locate(Key key) const override { return slot_plus_one_.get()[key] - 1; }
  void placed(Key key, Slot slot) override { slot_plus_one_.get()[key] = slot + 1; }
  void removed(Key key, Slot) override { slot_plus_one_.get()[key] = 0; }
  void prefetch(Key key) const override { __builtin_prefetch(slot_plus_one_.get() + key); }

  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  const Key keys_;
  const std::unique_ptr<Slot[], Free> slot_plus_one_;  // per key; 0: not cached, so that fresh pages need no writing
};

}  // namespace frugal
