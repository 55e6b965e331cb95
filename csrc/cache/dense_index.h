// The common part of the cache indexes for dense keys 0 .. keys-1: which keys there are, and which sets they belong to.
//
// A key's set is its remainder by the number of sets. Entity ids are dense, so every set serves the same number of
// keys, and a cache that is as large as the table holds all of it.
#pragma once

#include <algorithm>
#include <stdexcept>
#include <string>

#include "cache/cache_index.h"

namespace frugal {

class DenseIndex : public CacheIndex {
 public:
  // Sets matter for evictions alone here, so they are small: looking for the lowest of 32 scores is four times cheaper
  // than of 128, and the hit share is nearly the same.
  static constexpr Slot kDenseWays = 32;

 protected:
  // keys >= 1. A capacity above `keys` is cut to it.
  DenseIndex(Key keys, Slot capacity, ScorePolicy policy, Slot ways = kDenseWays)
      : CacheIndex(static_cast<Slot>(std::min<Key>(capacity, keys)), policy, ways), keys_(keys) {}

  std::int64_t set_of(Key key) const final { return key % sets(); }

 private:
  Key checked(Key key) const final {
    if (key < 0 || key >= keys_)
      throw std::out_of_range("key " + std::to_string(key) + " is not in [0, " + std::to_string(keys_) + ")");
    return key;
  }

  const Key keys_;
};

}  // namespace frugal
