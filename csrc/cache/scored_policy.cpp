#include "cache/scored_policy.h"

#include <algorithm>
#include <stdexcept>

namespace frugal {
namespace {

constexpr std::int32_t kInSight = std::int32_t{1} << 30, kMostSteps = kInSight - 1;
constexpr std::uint16_t kMostUses = 0xffff;
constexpr std::int64_t kMostEpochs = 0x7fff;

}  // namespace

ScoredPolicy::ScoredPolicy(std::int64_t rows, std::int64_t slots, Eviction eviction, std::int64_t epoch_steps)
    : eviction_(eviction), epoch_steps_(epoch_steps), sets_(rows, slots), uses_(static_cast<std::size_t>(rows)) {
  if (epoch_steps < 1) throw std::invalid_argument("an epoch has at least one step");
}

// Any use in sight outweighs any number of uses in the past, and any use in this epoch those in another.
ScoredSets::Score ScoredPolicy::score_of_use(std::int64_t row, std::int64_t step, std::int64_t next_use) {
  std::uint16_t& uses = uses_[static_cast<std::size_t>(row)];
  uses += uses != kMostUses;
  switch (eviction_) {
    case Eviction::kNextUse:
      if (next_use != kNever)
        return kInSight | (kMostSteps - static_cast<std::int32_t>(std::min<std::int64_t>(next_use, kMostSteps)));
      break;
    case Eviction::kEpochLfu:
      return static_cast<std::int32_t>(std::min(step / epoch_steps_, kMostEpochs)) << 16 | uses;
    case Eviction::kLfu:
      break;
  }
  return uses;
}

void ScoredPolicy::touch(std::int64_t row, std::int32_t slot, std::int64_t step, std::int64_t next_use) {
  sets_.touch(row, slot, score_of_use(row, step, next_use), step);
}

void ScoredPolicy::prefetch(std::int64_t row) const {
  __builtin_prefetch(&uses_[static_cast<std::size_t>(row)], 1);
  sets_.prefetch(row);
}

std::int32_t ScoredPolicy::admit(std::int64_t row, std::int64_t step, std::int64_t next_use) {
  return sets_.insert(row, score_of_use(row, step, next_use), step);
}

void ScoredPolicy::release(std::int64_t row, std::int32_t slot) { sets_.release(row, slot); }

}  // namespace frugal
