#include "cache/scored_policy.h"

#include <algorithm>
#include <limits>
#include <stdexcept>

namespace frugal {
namespace {

ScorePolicy score_policy(Eviction eviction) {
  switch (eviction) {
    case Eviction::kLru:
      return ScorePolicy::kLru;
    case Eviction::kLfu:
      return ScorePolicy::kLfu;
    case Eviction::kEpochLru:
      return ScorePolicy::kEpochLru;
    case Eviction::kEpochLfu:
      return ScorePolicy::kEpochLfu;
    case Eviction::kNextUse:
      return ScorePolicy::kCustomized;
  }
  throw std::invalid_argument("no such eviction");
}

bool counts(Eviction eviction) {
  return eviction == Eviction::kLfu || eviction == Eviction::kEpochLfu || eviction == Eviction::kNextUse;
}

// Any use in sight outweighs any number of uses in the past.
Score next_use_score(std::int64_t next_use, std::uint32_t count) {
  if (next_use == kNever) return count;
  return static_cast<Score>(kNever - next_use) | Score{1} << 63;
}

}  // namespace

Eviction eviction_named(const std::string& name) {
  if (name == "lru") return Eviction::kLru;
  if (name == "lfu") return Eviction::kLfu;
  if (name == "epoch_lru") return Eviction::kEpochLru;
  if (name == "epoch_lfu") return Eviction::kEpochLfu;
  if (name == "next_use") return Eviction::kNextUse;
  throw std::invalid_argument("no cache policy '" + name + "'; there are lru, lfu, epoch_lru, epoch_lfu and next_use");
}

ScoredPolicy::ScoredPolicy(std::int64_t rows, std::int64_t slots, Eviction eviction, std::int64_t epoch_steps)
    : eviction_(eviction),
      epoch_steps_(epoch_steps),
      index_(rows, static_cast<Slot>(std::min<std::int64_t>(slots, std::numeric_limits<Slot>::max())),
             score_policy(eviction)),
      misses_(counts(eviction) ? static_cast<std::uint64_t>(std::min(rows, 8 * slots)) : 0),
      count_(eviction == Eviction::kNextUse ? index_.capacity() : 0) {
  if (epoch_steps < 1) throw std::invalid_argument("an epoch has at least one step");
}

void ScoredPolicy::touch(std::int64_t, std::int32_t slot, std::int64_t step, std::int64_t next_use) {
  advance(step);
  index_.touch(slot, wants_next_use() ? next_use_score(next_use, ++count_[slot]) : 1);
}

void ScoredPolicy::prefetch(std::int64_t row) const {
  if (counts(eviction_)) misses_.prefetch(row);
  index_.prefetch(row);
}

void ScoredPolicy::prefetch_slot(std::int32_t slot) const {
  index_.prefetch(slot);
  if (wants_next_use()) __builtin_prefetch(&count_[slot], 1);
}

Admission ScoredPolicy::admit(std::int64_t row, std::int64_t step, std::int64_t next_use) {
  advance(step);
  const std::uint32_t count = counts(eviction_) ? misses_.count(row) : 1;
  const Upsert upsert = index_.insert_and_evict(row, wants_next_use() ? next_use_score(next_use, count) : count);
  if (wants_next_use() && upsert.slot != kNoSlot) count_[upsert.slot] = count;
  return {upsert.slot, upsert.evicted};
}

void ScoredPolicy::release(std::int64_t, std::int32_t slot) { index_.free(slot); }

void ScoredPolicy::advance(std::int64_t step) {
  if (step == index_.clock().time) return;
  index_.set_time(step);
  index_.set_epoch(static_cast<std::uint32_t>(step / epoch_steps_));
}

}  // namespace frugal
