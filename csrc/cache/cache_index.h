// Which key lies in which slot of a cache, and which key makes way for another: a set-associative hash table for any
// 64-bit keys but kNoKey, with one-byte digests.
//
// The contract is HierarchicalKV's (arXiv 2603.17168): the capacity is fixed; an upsert always resolves in place, by a
// free slot, by evicting the lowest score of the key's set, or by rejecting the key; there is no rehash and no capacity
// error; what was evicted comes back from the same call. Slots come in sets of at most 128, and a key may only lie in
// its set.
//
// One addition for training: a key that was touched at the current time is never evicted (time is the step, and a row
// that a step uses must stay until its end). If that leaves a full set nothing to evict, the key is rejected. Among
// equal scores the key that was touched longest ago goes first, then the one in the lowest slot, so that the same calls
// always give the same cache.
//
// A key's hash names its set and an 8-bit digest. Finding compares the digests of the set eight at a time and then the
// few keys whose digest agrees (one in 255 by chance), so its cost does not grow with the load up to a full table.
//
// Not thread-safe: one thread owns an index.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/huge_pages.h"
#include "cache/score_policy.h"

namespace frugal {

using Key = std::int64_t;
using Slot = std::int32_t;

inline constexpr Slot kNoSlot = -1;
inline constexpr Key kNoKey = -1;
inline constexpr Slot kWays = 128;  // slots in a full-size set

// How one upsert ended.
struct Upsert {
  Slot slot = kNoSlot;      // where the key lies now; kNoSlot: rejected
  bool found = false;       // it was there before
  Key evicted = kNoKey;     // the key that lay in `slot` before, if one had to go
  Score evicted_score = 0;  // and its score
};

// One occupied slot, complete enough to put it back.
struct CacheEntry {
  Key key;
  Slot slot;
  Score score;
  std::int64_t touched;  // time of the last touch
};

class CacheIndex {
 public:
  // capacity >= 1 (throws std::invalid_argument otherwise).
  CacheIndex(Slot capacity, ScorePolicy policy);
  CacheIndex(const CacheIndex&) = delete;
  CacheIndex& operator=(const CacheIndex&) = delete;

  Slot capacity() const { return capacity_; }
  Slot size() const { return size_; }
  ScorePolicy policy() const { return policy_; }
  std::int64_t sets() const { return sets_; }
  const ScoreClock& clock() const { return clock_; }

  // Times and epochs never run backwards; throws std::invalid_argument if they would.
  void set_time(std::int64_t time);
  void set_epoch(std::uint32_t epoch);

  // The slot of a key, or kNoSlot. Changes nothing. All calls that take keys throw std::out_of_range for kNoKey.
  Slot find(Key key) const { return locate(checked(key)); }
  void find(const Key* keys, std::int64_t count, Slot* slots) const;

  // Touches the key if it is there, else brings it in. See score_policy.h for `given`. Keys of one call are taken in
  // order, so a key that occurs twice is found the second time.
  Upsert insert_and_evict(Key key, Score given);
  void insert_and_evict(const Key* keys, const Score* given, std::int64_t count, Upsert* results);

  // The key in `slot`, which is taken, is touched: for callers who know the slot and need no finding.
  void touch(Slot slot, Score given);

  // Touches the key if it is there; never inserts. Returns its slot or kNoSlot.
  Slot assign(Key key, Score given);

  // Returns whether the key was there.
  bool erase(Key key);
  void clear();

  // In the order of slots.
  std::vector<CacheEntry> entries() const;

  // Replaces the contents. Throws std::invalid_argument, and leaves the index empty, if an entry does not fit: a slot
  // outside the key's set, or a key or slot that occurs twice.
  void restore(const std::vector<CacheEntry>& entries);

  // The slots in which a key may lie: [first, last).
  struct SlotRange {
    Slot first, last;
  };
  SlotRange slots_of_key(Key key) const { return slots_of_set(set_of(checked(key))); }

 private:
  SlotRange slots_of_set(std::int64_t set) const {
    const std::int64_t first = set * ways_ + std::min(set, larger_sets_);
    return {static_cast<Slot>(first), static_cast<Slot>(first + ways_ + (set < larger_sets_))};
  }

  // A set's digests fill two lines of cache; 0 is a free slot (or one beyond a smaller set's end).
  struct alignas(kWays) Digests {
    std::uint8_t way[kWays] = {};
  };

  static std::uint64_t hash(Key key) {  // finalizer of splitmix64: every output bit depends on every input bit
    std::uint64_t x = static_cast<std::uint64_t>(key) + 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
  }
  static std::uint8_t digest(std::uint64_t hash) { return static_cast<std::uint8_t>((hash & 0xffff) % 255 + 1); }
  std::int64_t set_of_hash(std::uint64_t hash) const {  // upper bits; the digest takes the lower ones
    return static_cast<std::int64_t>((hash >> 32) * static_cast<std::uint64_t>(sets()) >> 32);
  }

  Key checked(Key key) const {
    if (key == kNoKey) throw std::out_of_range("key " + std::to_string(key) + " is reserved: it stands for no key");
    return key;
  }
  std::int64_t set_of(Key key) const { return set_of_hash(hash(key)); }

  Slot locate(Key key) const {
    const std::uint64_t hashed = hash(key);
    const std::int64_t set = set_of_hash(hashed);
    const Slot first = slots_of_set(set).first;
    constexpr std::uint64_t kOnes = 0x0101010101010101u;
    const std::uint64_t pattern = kOnes * digest(hashed);
    for (int group = 0; group < kWays; group += 8) {
      std::uint64_t word;
      std::memcpy(&word, digests_[set].way + group, sizeof word);
      word ^= pattern;
      // A byte that is zero now agreed. The borrow can also mark bytes above such a one; comparing the key sorts that
      // out.
      for (std::uint64_t equal = (word - kOnes) & ~word & (kOnes << 7); equal != 0; equal &= equal - 1) {
        const int way = group + __builtin_ctzll(equal) / 8;
        if (digests_[set].way[way] != 0 && keys_[first + way] == key) return first + way;
      }
    }
    return kNoSlot;
  }

  void prefetch(Key key) const {
    const auto* way = digests_[set_of(key)].way;
    __builtin_prefetch(way);
    __builtin_prefetch(way + kWays / 2);
  }

  std::uint8_t& digest_at(Key key, Slot slot) {
    const std::int64_t set = set_of(key);
    return digests_[set].way[slot - slots_of_set(set).first];
  }

  Slot free_slot(SlotRange range, std::int64_t set) const;
  Slot victim(SlotRange range, std::int64_t set);
  void put(Key key, Slot slot, Score score, std::int64_t touched, std::int64_t set);
  void vacate(Slot slot, std::int64_t set);

  const Slot capacity_;
  const std::int64_t sets_;
  const std::int64_t ways_, larger_sets_;  // slots of a set; the first few sets have one more
  const ScorePolicy policy_;
  ScoreClock clock_;
  Slot size_ = 0;
  struct Use {
    Score score;
    std::int64_t touched;  // time of the last touch
  };
  struct Set {
    Slot occupied = 0;
    Score lower_bound = 0;  // no score of the set is below it, so what scores less is rejected without looking further
  };
  LargeArray<Key> keys_;  // per slot; kNoKey: free
  LargeArray<Use> uses_;  // per slot
  LargeArray<Set> set_;
  std::vector<Digests> digests_;  // per set
};

}  // namespace frugal
