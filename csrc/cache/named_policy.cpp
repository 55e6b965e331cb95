#include "cache/named_policy.h"

#include <algorithm>
#include <stdexcept>

#include "cache/clock_policy.h"
#include "cache/parted_policy.h"
#include "cache/scored_policy.h"

namespace frugal {
namespace {

constexpr std::int64_t kLeastSlots = 128;  // of a part: some sets of rows that compete
constexpr int kMostParts = 4;              // as many as a planner has threads by default, at most

template <class Policy, class... More>
std::shared_ptr<CachePolicy> in_parts(std::int64_t rows, std::int64_t slots, int parts, const More&... more) {
  if (parts == 0) parts = std::min(rows, slots) >= kMostParts * kLeastSlots ? kMostParts : 1;
  if (parts == 1) return std::make_shared<Policy>(rows, slots, more...);
  return std::make_shared<PartedPolicy<Policy>>(rows, slots, parts, more...);
}

}  // namespace

std::shared_ptr<CachePolicy> make_named_policy(const std::string& name, std::int64_t rows, std::int64_t slots, int parts) {
  if (name == "lru" || name == "epoch_lru") return in_parts<ClockPolicy>(rows, slots, parts);
  if (name == "lfu") return in_parts<ScoredPolicy>(rows, slots, parts, Eviction::kLfu);
  if (name == "epoch_lfu") return in_parts<ScoredPolicy>(rows, slots, parts, Eviction::kEpochLfu);
  if (name == "next_use") return in_parts<ScoredPolicy>(rows, slots, parts, Eviction::kNextUse);
  throw std::invalid_argument("no cache policy '" + name + "'; there are lru, lfu, epoch_lru, epoch_lfu and next_use");
}

}  // namespace frugal
