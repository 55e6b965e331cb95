// Which positives of a step each rank computes losses of, where ranks have columns: whole ones, with all their
// negatives, since a softmax over negatives and a pairwise loss look at a whole row of scores.
#pragma once

#include <algorithm>
#include <cstdint>

namespace frugal {

// Of devices, and of ranks that have columns. Ranks of the CPU that only synchronise may be more.
inline constexpr int kMostRanks = 8, kMostHostRanks = 128;

// Rows [first, end), those of rank r before those of r + 1. Shares are equal, but the last ones may be smaller.
struct Share {
  std::int64_t first, end;
  std::int64_t rows() const { return end - first; }
};

inline constexpr std::int64_t share_rows(std::int64_t rows, int ranks) { return (rows + ranks - 1) / ranks; }

inline constexpr Share share_of(std::int64_t rows, int rank, int ranks) {
  const std::int64_t size = share_rows(rows, ranks);
  return {std::min(rows, rank * size), std::min(rows, (rank + 1) * size)};
}

}  // namespace frugal
