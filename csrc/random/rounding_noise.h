// The random numbers by which rows in halves are rounded: 16 bits f(seed, table, step, row, column).
//
// A block of Philox is the noise of eight columns that are 32 apart: so the 32 lanes of a warp make that of 256
// neighbouring columns, each lane its own, and a processor makes the 32 blocks side by side.
#pragma once

#include <cstdint>

#include "random/philox.h"
#include "random/stream.h"

namespace frugal {

inline constexpr int kNoiseLanes = 32, kNoiseVectors = 8;
inline constexpr std::int64_t kNoiseColumns = kNoiseLanes * kNoiseVectors;  // that neighbouring blocks are for

// Of one row in one step. Steps and rows count modulo 2^32.
struct RoundingNoise {
  std::uint64_t seed, low, high;

  // table: below 2^8; rows have less than 2^27 columns.
  FRUGAL_EVERYWHERE static RoundingNoise of(std::uint64_t seed, std::uint32_t table, std::int64_t step,
                                             std::int64_t row) {
    const std::uint64_t low = std::uint64_t{table} << 56 | std::uint64_t{static_cast<std::uint32_t>(row)} << 24;
    return {seed, low, random_stream(RandomUse::rounding, static_cast<std::uint32_t>(step))};
  }
  // The block of columns first + lane + 32 k for k < 8, where first is a multiple of kNoiseColumns.
  FRUGAL_EVERYWHERE PhiloxWords block(std::int64_t first, int lane) const {
    return philox_words(seed, low_of(first) + static_cast<std::uint64_t>(lane), high);
  }
  FRUGAL_EVERYWHERE std::uint64_t low_of(std::int64_t first) const {
    return low + static_cast<std::uint64_t>(first / kNoiseVectors);
  }
  // The noise of column k of those.
  FRUGAL_EVERYWHERE static std::uint32_t of_vector(const PhiloxWords& words, int k) {
    return words.at[k / 2] >> 16 * (k % 2) & 0xffffu;
  }
  FRUGAL_EVERYWHERE std::uint32_t at(std::int64_t column) const {
    const std::int64_t first = column / kNoiseColumns * kNoiseColumns;
    const int within = static_cast<int>(column - first);
    return of_vector(block(first, within % kNoiseLanes), within / kNoiseLanes);
  }
};

}  // namespace frugal
