#include "table/largest.h"

#include <algorithm>
#include <atomic>
#include <bit>

#include "base/parallel/thread_pool.h"

namespace frugal {

// Without their signs floats are ordered as their bits are, infinity behind all numbers and NaN behind that.
float largest_magnitude(const float* rows, std::int64_t count, std::int64_t dim, std::int64_t stride) {
  constexpr std::int64_t kFloatsOfTask = 1 << 18;
  std::atomic<std::uint32_t> largest{0};
  const std::int64_t grain = std::max<std::int64_t>(1, kFloatsOfTask / std::max<std::int64_t>(1, dim));
  default_pool()->parallel_for(count, grain, [&](std::int64_t begin, std::int64_t end) {
    std::uint32_t found = 0;
    for (const float* row = rows + begin * stride; begin < end; ++begin, row += stride)
      for (std::int64_t i = 0; i < dim; ++i)
        found = std::max(found, std::bit_cast<std::uint32_t>(row[i]) & 0x7fffffffu);
    for (std::uint32_t known = largest.load(); known < found && !largest.compare_exchange_weak(known, found);) {
    }
  });
  return std::bit_cast<float>(largest.load());
}

}  // namespace frugal
