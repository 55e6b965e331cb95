// Dot products, plain or clamped: DistMult, ComplEx, RESCAL, SimplE.
#pragma once

#include "base/linalg/tile.h"
#include "models/similarity/scores.h"

namespace frugal::FRUGAL_ISA {

struct Dot : DotScores {
  static void compare(std::int64_t rows, std::int64_t vectors, std::int64_t k, Rows query, const float* panels,
                      Rows values) {
    multiply(rows, vectors, k, {query.data, query.stride, 1}, {panels, kLanes, kLanes * k}, values);
  }
  static void gradient(std::int64_t rows, std::int64_t others, std::int64_t k, Rows, Rows theirs, const float* weight,
                       std::int64_t row_stride, std::int64_t other_stride, Rows gradient) {
    multiply(rows, (k + kLanes - 1) / kLanes, others, {weight, row_stride, other_stride},
             {theirs.data, theirs.stride, kLanes}, gradient);
  }
};

// Products and gradients as Dot: the slopes carry the clamp.
struct ClampedDot : ClampedDotScores {};

}  // namespace frugal::FRUGAL_ISA
