// Sums of absolute differences: TransE_l1, TransR.
#pragma once

#include "base/linalg/tile.h"
#include "models/similarity/pairs.h"
#include "models/similarity/scores.h"

namespace frugal::FRUGAL_ISA {

struct L1 : DistanceScores {
  static void compare(std::int64_t rows, std::int64_t vectors, std::int64_t k, Rows query, const float* panels,
                      Rows values) {
    for_tiles<AbsoluteDifference>(rows, vectors, k, {query.data, query.stride, 1}, {panels, kLanes, kLanes * k},
                                  values.data, values.stride);
  }

  static constexpr int kParts = 1;
  static constexpr int kRows = kTileVectors == 2 ? 8 : 3;  // rows whose values and sums fit into the registers
  static inline Vec slope(const Column<L1>& own, const Column<L1>& other, Vec weight, Column<L1>& difference) {
    difference.part[0] = sign(own.part[0] - other.part[0]);
    return weight;
  }
};

}  // namespace frugal::FRUGAL_ISA
