#include "cache/scored_policy.h"

#include <algorithm>
#include <stdexcept>

namespace frugal {
namespace {

constexpr std::uint32_t kInSight = std::uint32_t{1} << 31;
constexpr std::uint32_t kMostUses = kInSight - 1, kMostUsesOfEpoch = 0xffff;

}  // namespace

ScoredPolicy::ScoredPolicy(std::int64_t rows, std::int64_t slots, Eviction eviction, std::int64_t epoch_steps)
    : eviction_(eviction),
      epoch_steps_(epoch_steps),
      sets_(rows, slots),
      misses_(static_cast<std::uint64_t>(std::min(rows, 8 * slots))),
      count_(static_cast<std::size_t>(wants_next_use() ? sets_.slots() : 0)) {
  if (epoch_steps < 1) throw std::invalid_argument("an epoch has at least one step");
}

// Any use in sight outweighs any number of uses in the past, and any use in this epoch those in another.
ScoredSets::Score ScoredPolicy::score(std::uint32_t count, std::int64_t step, std::int64_t next_use) const {
  switch (eviction_) {
    case Eviction::kNextUse:
      return next_use == kNever ? count : kInSight | (kMostUses - static_cast<std::uint32_t>(next_use));
    case Eviction::kEpochLfu:
      return static_cast<std::uint32_t>(std::min<std::int64_t>(step / epoch_steps_, 0xffff)) << 16 |
             std::min(count, kMostUsesOfEpoch);
    case Eviction::kLfu:
      break;
  }
  return count;
}

void ScoredPolicy::touch(std::int64_t, std::int32_t slot, std::int64_t step, std::int64_t next_use) {
  std::uint32_t count = wants_next_use() ? count_[static_cast<std::size_t>(slot)] : sets_.score(slot);
  if (eviction_ == Eviction::kEpochLfu) count &= kMostUsesOfEpoch;
  count += count < kMostUses;
  if (wants_next_use()) count_[static_cast<std::size_t>(slot)] = count;
  sets_.touch(slot, score(count, step, next_use), step);
}

void ScoredPolicy::prefetch(std::int64_t row) const {
  misses_.prefetch(row);
  sets_.prefetch(row);
}

void ScoredPolicy::prefetch_slot(std::int32_t slot) const {
  sets_.prefetch_slot(slot);
  if (wants_next_use()) __builtin_prefetch(&count_[static_cast<std::size_t>(slot)], 1);
}

Admission ScoredPolicy::admit(std::int64_t row, std::int64_t step, std::int64_t next_use) {
  const std::uint32_t count = misses_.count(row);
  const Admission admission = sets_.insert(row, score(count, step, next_use), step);
  if (wants_next_use() && admission.accepted()) count_[static_cast<std::size_t>(admission.slot)] = count;
  return admission;
}

void ScoredPolicy::release(std::int64_t, std::int32_t slot) { sets_.release(slot); }

}  // namespace frugal
