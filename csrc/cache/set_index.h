// Sets and scores of a cache without a way to find: for a caller who knows which keys lie where.
//
// The engine's planner keeps a directory of all cached rows, so a policy of its own needs none: nothing here grows with
// the number of possible keys. (A slot number per key, as in DirectIndex, is 344 MB for Freebase, and each row that
// comes by touches another page of it.) Only keys that are not there may be inserted; find finds nothing.
#pragma once

#include "cache/dense_index.h"

namespace frugal {

class SetIndex final : public DenseIndex {
 public:
  // keys 0 .. keys - 1, keys >= 1. A capacity above `keys` is cut to it.
  SetIndex(Key keys, Slot capacity, ScorePolicy policy) : DenseIndex(keys, capacity, policy) {}

  // Asks for what inserting the key will read: its set and the scores there.
  void prefetch(Key key) const override { prefetch_set(set_of(key)); }

  // Asks for what touching the slot will read.
  void prefetch(Slot slot) const { prefetch_use(slot); }

  // The key in `slot`, which is taken, leaves.
  void free(Slot slot) { vacate(slot, set_of(key_at(slot))); }

 private:
  Slot locate(Key) const override { return kNoSlot; }
  void placed(Key, Slot) override {}
  void removed(Key, Slot) override {}
};

}  // namespace frugal
