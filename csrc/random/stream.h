// What the random numbers of one seed are used for: two uses never share a stream.
#pragma once

#include <cstdint>

namespace frugal {

enum class RandomUse : std::uint32_t {
  initial_value = 0,  // part = which table; so a plain small integer names a table's stream
  negative = 1,       // part = rank
  epoch_order = 2,    // part = 2 * rank + (1 where heads are corrupted)
  rank_order = 3,     // part = 0
};

constexpr std::uint64_t random_stream(RandomUse use, std::uint32_t part) {
  return static_cast<std::uint64_t>(use) << 32 | part;
}

}  // namespace frugal
