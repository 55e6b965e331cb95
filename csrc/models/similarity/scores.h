// From raw comparisons to scores: score(row, v, raw, slope) gives the scores of vector v of a query's row and how fast
// they rise with the raw value.
#pragma once

#include "base/linalg/simd.h"
#include "models/similarity/similarity.h"

namespace frugal::FRUGAL_ISA {

inline constexpr float kClamp = 20.0f;  // SimplE's bound on scores; inside it, bounds included, the slope is 1

struct DotScores {
  FRUGAL_DEVICE static Vec score(const QueryRow&, std::int64_t, Vec raw, Vec& slope) {
    slope = broadcast(1.0f);
    return raw;
  }
};

struct ClampedDotScores {
  FRUGAL_DEVICE static Vec score(const QueryRow&, std::int64_t, Vec raw, Vec& slope) {
    const Vec bound = broadcast(kClamp);
    slope = select(bound < abs(raw), broadcast(0.0f), broadcast(1.0f));
    return max(broadcast(-kClamp), min(bound, raw));
  }
};

// Raw values are distances.
struct DistanceScores {
  FRUGAL_DEVICE static Vec score(const QueryRow& row, std::int64_t, Vec raw, Vec& slope) {
    slope = broadcast(-1.0f);
    return broadcast(row.gamma) - raw;
  }
};

// Raw values are dot products: |a - b|^2 = |b|^2 - 2 a.b + |a|^2, not below 1e-30, as DGL-KE takes it. The slope of the
// distance is left without its numerator a - b, which the gradient supplies.
struct L2Scores {
  FRUGAL_DEVICE static Vec score(const QueryRow& row, std::int64_t v, Vec raw, Vec& slope) {
    const Vec least = broadcast(1e-30f);
    const Vec square = fma(broadcast(-2.0f), raw, load(row.negative_square + v * kLanes)) + broadcast(row.query_square);
    const Vec distance = sqrt(max(least, square));
    slope = select(square < least, broadcast(0.0f), broadcast(-1.0f) / distance);
    return broadcast(row.gamma) - distance;
  }
};

}  // namespace frugal::FRUGAL_ISA
