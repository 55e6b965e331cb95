#include "cache/policies.h"

#include <algorithm>
#include <stdexcept>

#include "cache/lfu_policy.h"
#include "cache/parted_policy.h"

namespace frugal {
namespace {

constexpr std::int64_t kLeastSlots = 128;  // of a part: some sets of rows that compete
constexpr int kMostParts = 4;              // as many as a planner has threads by default, at most

template <class Policy>
std::shared_ptr<CachePolicy> make(std::int64_t rows, std::int64_t slots, int parts) {
  if (parts == 0) parts = std::min(rows, slots) >= kMostParts * kLeastSlots ? kMostParts : 1;
  if (parts == 1) return std::make_shared<Policy>(rows, slots);
  return std::make_shared<PartedPolicy<Policy>>(rows, slots, parts);
}

}  // namespace

std::shared_ptr<CachePolicy> make_cache_policy(std::string_view name, std::int64_t rows, std::int64_t slots,
                                               int parts) {
  if (name == "lfu") return make<LfuPolicy>(rows, slots, parts);
  throw std::invalid_argument("there is no cache policy '" + std::string(name) + "'");
}

}  // namespace frugal
