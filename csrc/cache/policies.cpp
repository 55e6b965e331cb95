#include "cache/policies.h"

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <string>

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

struct NamedPolicy {
  std::string_view name;
  int slot_bytes;
  std::shared_ptr<CachePolicy> (*make)(std::int64_t rows, std::int64_t slots, int parts);
};

template <class Policy>
constexpr NamedPolicy named(std::string_view name) {
  return {name, Policy::kSlotBytes, &make<Policy>};
}

constexpr NamedPolicy kPolicies[] = {named<LfuPolicy>("lfu")};

const NamedPolicy& find_policy(std::string_view name) {
  const auto* const found = std::ranges::find(kPolicies, name, &NamedPolicy::name);
  if (found == std::end(kPolicies)) throw std::invalid_argument("there is no cache policy '" + std::string(name) + "'");
  return *found;
}

}  // namespace

std::shared_ptr<CachePolicy> make_cache_policy(std::string_view name, std::int64_t rows, std::int64_t slots,
                                               int parts) {
  return find_policy(name).make(rows, slots, parts);
}

std::vector<std::string_view> cache_policy_names() {
  std::vector<std::string_view> names;
  for (const NamedPolicy& policy : kPolicies) names.push_back(policy.name);
  return names;
}

int cache_policy_slot_bytes(std::string_view name) { return find_policy(name).slot_bytes; }

}  // namespace frugal
