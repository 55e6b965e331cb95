// Dot products, plain or clamped: DistMult, ComplEx, RESCAL, SimplE.
#pragma once

#include "linalg/tile.h"
#include "models/similarity/similarity.h"

namespace frugal::FRUGAL_ISA {

inline constexpr float kClamp = 20.0f;  // SimplE's bound on scores; inside it, bounds included, the slope is 1

struct Dot {
  static void compare(std::int64_t rows, std::int64_t vectors, std::int64_t k, Rows query, const float* panels, Rows values) {
    multiply(rows, vectors, k, {query.data, query.stride, 1}, {panels, kLanes, kLanes * k}, values);
  }
  static Vec score(const QueryRow&, std::int64_t, Vec raw, Vec& slope) {
    slope = broadcast(1.0f);
    return raw;
  }
  static void gradient(std::int64_t rows, std::int64_t others, std::int64_t k, Rows, Rows theirs, const float* weight,
                       std::int64_t row_stride, std::int64_t other_stride, Rows gradient) {
    multiply(rows, (k + kLanes - 1) / kLanes, others, {weight, row_stride, other_stride}, {theirs.data, theirs.stride, kLanes},
             gradient);
  }
};

struct ClampedDot : Dot {
  static Vec score(const QueryRow&, std::int64_t, Vec raw, Vec& slope) {
    const Vec bound = broadcast(kClamp);
    slope = select(bound < abs(raw), broadcast(0.0f), broadcast(1.0f));
    return max(min(raw, bound), broadcast(-kClamp));
  }
};

}  // namespace frugal::FRUGAL_ISA
