// The random numbers by which rows in half precision are rounded: 16 bits f(seed, table, step, row, column), where
// columns are counted in the whole row, whoever has which of them.
//
// A block of Philox is the noise of eight columns that are 32 apart: so the 32 lanes of a warp make that of 256
// neighbouring columns, each lane its own, and a processor makes the 32 blocks side by side.
#pragma once

#include <cstdint>

#include "base/random/philox.h"
#include "base/random/stream.h"

namespace frugal {

inline constexpr int kNoiseLanes = 32, kNoiseVectors = 8;
inline constexpr int kNoiseColumns = kNoiseLanes * kNoiseVectors;  // that neighbouring blocks are for

// Which columns of whole rows the columns of some rows are: all of them, or of a rank that has some, neighbours from
// `first` on. Where the two halves of a row belong together it has some of each: those from number `turn` on are
// neighbours from `second` on.
struct WholeColumns {
  std::int32_t first = 0, turn = INT32_MAX, second = 0;

  FRUGAL_EVERYWHERE std::uint32_t of(std::int64_t column) const {
    const auto own = static_cast<std::int32_t>(column);
    return static_cast<std::uint32_t>(own < turn ? first + own : second + (own - turn));
  }
};

// Of one row in one step. Steps and rows count modulo 2^32. Columns are those of whole rows, less than 2^27.
struct RoundingNoise {
  std::uint64_t seed, low, high;

  // The block of a column, and which of its eight columns it is.
  FRUGAL_EVERYWHERE static std::uint32_t block_of(std::uint32_t column) {
    return column / kNoiseColumns * kNoiseLanes + column % kNoiseLanes;
  }
  FRUGAL_EVERYWHERE static int vector_of(std::uint32_t column) {
    return static_cast<int>(column / kNoiseLanes % kNoiseVectors);
  }
  FRUGAL_EVERYWHERE PhiloxWords block(std::uint32_t number) const { return philox_words(seed, low + number, high); }
  // The noise of column k of a block.
  FRUGAL_EVERYWHERE static std::uint32_t of_vector(const PhiloxWords& words, int k) {
    const std::uint32_t one = k & 2 ? words.at[1] : words.at[0], other = k & 2 ? words.at[3] : words.at[2];
    return (k & 4 ? other : one) >> 16 * (k & 1) & 0xffffu;  // selected, so that a device keeps words in registers
  }
  FRUGAL_EVERYWHERE std::uint32_t at(std::uint32_t column) const {
    return of_vector(block(block_of(column)), vector_of(column));
  }
};

// By what the rows of a table are rounded. table: below 2^8, keeps the noise of several tables apart.
struct Rounding {
  std::uint64_t seed = 0;
  std::uint32_t table = 0;
  WholeColumns columns = {};

  FRUGAL_EVERYWHERE RoundingNoise of(std::int64_t step, std::int64_t row) const {
    const std::uint64_t low = std::uint64_t{table} << 56 | std::uint64_t{static_cast<std::uint32_t>(row)} << 24;
    return {seed, low, random_stream(RandomUse::rounding, static_cast<std::uint32_t>(step))};
  }
};

}  // namespace frugal
