#include "cache/cache_index.h"

#include <algorithm>
#include <limits>
#include <stdexcept>

namespace frugal {
namespace {
constexpr std::int64_t kPrefetchDistance = 8;  // keys between the one asked for and the one worked on
}

CacheIndex::CacheIndex(Slot capacity, ScorePolicy policy)
    : capacity_(capacity < 1 ? throw std::invalid_argument("a cache needs at least one slot") : capacity),
      sets_((std::int64_t{capacity} + kWays - 1) / kWays),
      ways_(capacity / sets_),
      larger_sets_(capacity % sets_),
      policy_(policy),
      keys_(capacity, kNoKey),
      uses_(capacity),
      set_(sets_),
      digests_(sets_) {}

void CacheIndex::set_time(std::int64_t time) {
  if (time < clock_.time)
    throw std::invalid_argument("time cannot go back from " + std::to_string(clock_.time) + " to " +
                                std::to_string(time));
  clock_.time = time;
}

void CacheIndex::set_epoch(std::uint32_t epoch) {
  if (epoch < clock_.epoch)
    throw std::invalid_argument("the epoch cannot go back from " + std::to_string(clock_.epoch) + " to " +
                                std::to_string(epoch));
  clock_.epoch = epoch;
}

void CacheIndex::find(const Key* keys, std::int64_t count, Slot* slots) const {
  for (std::int64_t i = 0; i < count; ++i) {
    if (i + kPrefetchDistance < count) prefetch(checked(keys[i + kPrefetchDistance]));
    slots[i] = find(keys[i]);
  }
}

void CacheIndex::insert_and_evict(const Key* keys, const Score* given, std::int64_t count, Upsert* results) {
  for (std::int64_t i = 0; i < count; ++i) checked(keys[i]);  // all or nothing
  for (std::int64_t i = 0; i < count; ++i) {
    if (i + kPrefetchDistance < count) prefetch(keys[i + kPrefetchDistance]);
    results[i] = insert_and_evict(keys[i], given[i]);
  }
}

Upsert CacheIndex::insert_and_evict(Key key, Score given) {
  Upsert result;
  result.slot = locate(checked(key));
  if (result.slot != kNoSlot) {
    touch(result.slot, given);
    result.found = true;
    return result;
  }
  const std::int64_t set = set_of(key);
  const SlotRange range = slots_of_set(set);
  const Score score = score_of_insert(policy_, clock_, given);
  result.slot = free_slot(range, set);
  if (result.slot == kNoSlot) {
    if (score < set_[set].lower_bound) return result;
    const Slot worst = victim(range, set);
    if (worst == kNoSlot || score < uses_[worst].score) return result;
    result.slot = worst;
    result.evicted = keys_[worst];
    result.evicted_score = uses_[worst].score;
    vacate(worst, set);
  }
  put(key, result.slot, score, clock_.time, set);
  return result;
}

Slot CacheIndex::assign(Key key, Score given) {
  const Slot slot = find(key);
  if (slot != kNoSlot) touch(slot, given);
  return slot;
}

bool CacheIndex::erase(Key key) {
  const Slot slot = find(key);
  if (slot == kNoSlot) return false;
  vacate(slot, set_of(key));
  return true;
}

void CacheIndex::clear() {
  for (const Key key : keys_)
    if (key != kNoKey) erase(key);
}

std::vector<CacheEntry> CacheIndex::entries() const {
  std::vector<CacheEntry> found;
  for (Slot slot = 0; slot < capacity_; ++slot)
    if (keys_[slot] != kNoKey) found.push_back({keys_[slot], slot, uses_[slot].score, uses_[slot].touched});
  return found;
}

void CacheIndex::restore(const std::vector<CacheEntry>& entries) {
  clear();
  try {
    for (const CacheEntry& entry : entries) {
      const SlotRange range = slots_of_key(entry.key);
      if (entry.slot < range.first || entry.slot >= range.last || keys_[entry.slot] != kNoKey ||
          find(entry.key) != kNoSlot)
        throw std::invalid_argument("key " + std::to_string(entry.key) + " cannot lie in slot " +
                                    std::to_string(entry.slot) + ": the contents are those of another cache");
      put(entry.key, entry.slot, entry.score, entry.touched, set_of(entry.key));
    }
  } catch (...) {
    clear();
    throw;
  }
}

Slot CacheIndex::free_slot(SlotRange range, std::int64_t set) const {
  if (set_[set].occupied == range.last - range.first) return kNoSlot;
  // Sets fill from the front and erasures are rare, so the slot after the occupied ones is nearly always free.
  const Slot likely = range.first + set_[set].occupied;
  if (keys_[likely] == kNoKey) return likely;
  return static_cast<Slot>(std::find(keys_.begin() + range.first, keys_.begin() + range.last, kNoKey) - keys_.begin());
}

// REQUIRES: every slot of the range is taken.
Slot CacheIndex::victim(SlotRange range, std::int64_t set) {
  constexpr Score kHighest = std::numeric_limits<Score>::max();
  Score lowest = kHighest;
  Slot found = kNoSlot;
  Use worst{kHighest, std::numeric_limits<std::int64_t>::max()};
  for (Slot slot = range.first; slot < range.last; ++slot) {  // without branches on the data: nobody could predict them
    const Use use = uses_[slot];
    lowest = std::min(lowest, use.score);
    const bool worse = (use.score < worst.score) | ((use.score == worst.score) & (use.touched < worst.touched));
    const bool goes = worse & (use.touched != clock_.time);
    found = goes ? slot : found;
    worst.score = goes ? use.score : worst.score;
    worst.touched = goes ? use.touched : worst.touched;
  }
  set_[set].lower_bound = lowest;
  return found;
}

void CacheIndex::put(Key key, Slot slot, Score score, std::int64_t touched, std::int64_t set) {
  keys_[slot] = key;
  uses_[slot] = {score, touched};
  set_[set].lower_bound = std::min(set_[set].lower_bound, score);
  ++set_[set].occupied;
  ++size_;
  digest_at(key, slot) = digest(hash(key));
}

void CacheIndex::vacate(Slot slot, std::int64_t set) {
  digest_at(keys_[slot], slot) = 0;
  keys_[slot] = kNoKey;
  --set_[set].occupied;
  --size_;
}

void CacheIndex::touch(Slot slot, Score given) {
  const Score score = score_of_touch(policy_, clock_, uses_[slot].score, given);
  if (score < uses_[slot].score) {  // only customized scores fall
    Set& set = set_[set_of(keys_[slot])];
    set.lower_bound = std::min(set.lower_bound, score);
  }
  uses_[slot] = {score, clock_.time};
}

}  // namespace frugal
