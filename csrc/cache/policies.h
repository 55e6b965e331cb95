// The engine's cache policies by name, but for the static one, which is made from a list of rows.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "engine/cache_policy.h"

namespace frugal {

// For a cache of `slots` rows of a table of `rows`. parts: see CachePolicy::parts; 0: as many as pay. Throws
// std::invalid_argument for another name, and for numbers of slots and parts that do not go together.
std::shared_ptr<CachePolicy> make_cache_policy(std::string_view name, std::int64_t rows, std::int64_t slots,
                                               int parts = 0);

std::vector<std::string_view> cache_policy_names();

// Bytes of host memory that a policy takes for each slot, as it says by kSlotBytes. Throws std::invalid_argument for
// another name.
int cache_policy_slot_bytes(std::string_view name);

}  // namespace frugal
