// Dropout's random numbers: word `element` of the stream of (seed, step, part), so that any thread or device finds out
// alone whether an element is kept, and a resumed run drops what the run would have dropped.
#pragma once

#include <cstdint>

#include "base/random/philox.h"
#include "base/random/stream.h"

namespace frugal {

// Words of elements [4 * block, 4 * block + 4). Seeds are below 2^32, so no other use of a seed has such a key.
FRUGAL_EVERYWHERE inline PhiloxWords dropout_words(std::uint64_t seed, std::int64_t step, std::uint32_t part,
                                                   std::uint64_t block) {
  const std::uint64_t key = static_cast<std::uint64_t>(step + 1) << 32 | seed;
  return philox_words(key, block, random_stream(RandomUse::dropout, part));
}

// Elements whose word is below this are dropped.
FRUGAL_EVERYWHERE inline std::uint32_t dropout_limit(float rate) {
  return static_cast<std::uint32_t>(static_cast<double>(rate) * 4294967296.0);
}

}  // namespace frugal
