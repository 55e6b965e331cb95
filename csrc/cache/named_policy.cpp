#include "cache/named_policy.h"

#include <stdexcept>

#include "cache/clock_policy.h"
#include "cache/scored_policy.h"

namespace frugal {

std::shared_ptr<CachePolicy> make_named_policy(const std::string& name, std::int64_t rows, std::int64_t slots) {
  if (name == "lru" || name == "epoch_lru") return std::make_shared<ClockPolicy>(rows, slots);
  if (name == "lfu") return std::make_shared<ScoredPolicy>(rows, slots, Eviction::kLfu);
  if (name == "epoch_lfu") return std::make_shared<ScoredPolicy>(rows, slots, Eviction::kEpochLfu);
  if (name == "next_use") return std::make_shared<ScoredPolicy>(rows, slots, Eviction::kNextUse);
  throw std::invalid_argument("no cache policy '" + name + "'; there are lru, lfu, epoch_lru, epoch_lfu and next_use");
}

}  // namespace frugal
