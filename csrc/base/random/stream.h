// The uses of the random numbers of one seed: two uses never share a stream.
#pragma once

#include <cstdint>

#include "base/device/everywhere.h"

namespace frugal {

enum class RandomUse : std::uint32_t {
  initial_value = 0,  // part = which table; so a plain small integer names a table's stream
  negative = 1,       // part = rank
  epoch_order = 2,    // part = 2 * rank + (1 where heads are corrupted)
  rank_order = 3,     // part = 0
  rounding = 4,       // part = step
  dropout = 5,        // part = which rows of a step; see base/random/dropout.h
  negative_again = 6, // part = rank
};

FRUGAL_EVERYWHERE constexpr std::uint64_t random_stream(RandomUse use, std::uint32_t part) {
  return static_cast<std::uint64_t>(use) << 32 | part;
}

}  // namespace frugal
