// What a cache policy would have done to a sequence of steps: hit share without a table, an engine or a device.
#pragma once

#include <cstdint>
#include <span>

#include "engine/cache_policy.h"

namespace frugal {

struct ReplayResult {
  std::int64_t reads = 0, hits = 0;  // rows, counted once per step
  std::int64_t evictions = 0, rejections = 0;
  std::int64_t nanoseconds = 0;  // of this thread (processor time), with finding the rows
};

// Step s uses rows[offsets[s] .. offsets[s + 1]), ascending and distinct; one rank. Calls the policy as the engine's
// planner does. horizon: how many steps ahead next uses are seen. Steps before `measured_from` warm the cache and are
// not counted. row_count: of the table; all rows are below it.
ReplayResult replay(CachePolicy& policy, std::int64_t row_count, std::span<const std::int64_t> offsets,
                    std::span<const std::int64_t> rows, std::int64_t horizon, std::int64_t measured_from);

}  // namespace frugal
