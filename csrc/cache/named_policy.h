// The engine's cache policies that need no list of rows, by name.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "engine/cache_policy.h"

namespace frugal {

// "lru", "lfu", "epoch_lru", "epoch_lfu" or "next_use", for a cache of `slots` of a table's `rows`; throws
// std::invalid_argument for another name. Whatever is used last is of the last epoch, so epoch_lru is lru. parts: see
// CachePolicy::parts; 0: as many as pay.
std::shared_ptr<CachePolicy> make_named_policy(const std::string& name, std::int64_t rows, std::int64_t slots, int parts = 0);

}  // namespace frugal
