#include "cache/scored_policy.h"

#include <algorithm>
#include <stdexcept>

namespace frugal {
namespace {

constexpr std::int32_t kInSight = std::int32_t{1} << 30, kMostSteps = kInSight - 1;
constexpr std::int64_t kMostEpochs = 0x7fff;

}  // namespace

ScoredPolicy::ScoredPolicy(std::int64_t rows, std::int64_t slots, Eviction eviction, std::int64_t epoch_steps)
    : eviction_(eviction), epoch_steps_(epoch_steps), sets_(rows, slots) {
  if (epoch_steps < 1) throw std::invalid_argument("an epoch has at least one step");
}

// Any use in sight outweighs any number of uses in the past, and any use in this epoch those in another.
ScoredSets::Score ScoredPolicy::score(const RowUse& use) const {
  switch (eviction_) {
    case Eviction::kNextUse:
      if (use.next_use == kNever) break;
      return kInSight | (kMostSteps - static_cast<std::int32_t>(std::min<std::int64_t>(use.next_use, kMostSteps)));
    case Eviction::kEpochLfu:
      return static_cast<std::int32_t>(std::min(use.step / epoch_steps_, kMostEpochs)) << 16 | use.count;
    case Eviction::kLfu:
      break;
  }
  return use.count;
}

}  // namespace frugal
