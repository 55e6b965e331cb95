// A cache index for dense keys 0 .. keys-1: one slot number per possible key, so that finding is one load.
#pragma once

#include <cstdlib>
#include <memory>
#include <new>

#include "cache/dense_index.h"

namespace frugal {

class DirectIndex final : public DenseIndex {
 public:
  // keys >= 1. A capacity above `keys` is cut to it. Allocates 4 bytes per key, touched only where keys come in.
  DirectIndex(Key keys, Slot capacity, ScorePolicy policy, Slot ways = kDenseWays)
      : DenseIndex(keys, capacity, policy, ways), slot_plus_one_(static_cast<Slot*>(std::calloc(keys, sizeof(Slot)))) {
    if (!slot_plus_one_) throw std::bad_alloc();
  }

 private:
  Slot locate(Key key) const override { return slot_plus_one_.get()[key] - 1; }
  void placed(Key key, Slot slot) override { slot_plus_one_.get()[key] = slot + 1; }
  void removed(Key key, Slot) override { slot_plus_one_.get()[key] = 0; }
  void prefetch(Key key) const override { __builtin_prefetch(slot_plus_one_.get() + key); }

  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  const std::unique_ptr<Slot[], Free> slot_plus_one_;  // per key; 0: not cached, so that fresh pages need no writing
};

}  // namespace frugal
