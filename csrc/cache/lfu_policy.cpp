#include "cache/lfu_policy.h"

#include <algorithm>

#include "cache/parted_policy.h"

namespace frugal {
namespace {

constexpr std::int64_t kLeastSlots = 128;  // of a part: some sets of rows that compete
constexpr int kMostParts = 4;              // as many as a planner has threads by default, at most

}  // namespace

std::shared_ptr<CachePolicy> make_lfu_policy(std::int64_t rows, std::int64_t slots, int parts) {
  if (parts == 0) parts = std::min(rows, slots) >= kMostParts * kLeastSlots ? kMostParts : 1;
  if (parts == 1) return std::make_shared<LfuPolicy>(rows, slots);
  return std::make_shared<PartedPolicy<LfuPolicy>>(rows, slots, parts);
}

}  // namespace frugal
