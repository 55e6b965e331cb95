// A query's scores with very many columns: their share of a softmax's sum, and the slopes of its loss.
#pragma once

#include "base/linalg/vector_math.h"
#include "models/row_loss.h"
#include "models/similarity/similarity.h"

namespace frugal::FRUGAL_ISA {

FRUGAL_LANES Vec bounded(Vec x, float bound) {
  return bound > 0.0f ? max(broadcast(-bound), min(broadcast(bound), x)) : x;
}

// See Kernels::sum_exponentials.
static inline ExponentialSum sum_exponentials(const ScoreRow& row, float before) {
  // Below it are columns that only fill up, and not NaN, which has to reach the sums.
  const Vec least = broadcast(0.5f * kNoScore), units = broadcast(row.unit);
  Vec top = broadcast(before);
  for (std::int64_t v = 0; v < row.vectors; ++v) {
    const Vec x = load(row.scores + v * kLanes);
    top = max(top, select(x < least, x, bounded(units * x, row.bound)));
  }
  const float largest = fold_max(top);
  const Vec highest = broadcast(largest);
  Vec total = broadcast(0.0f);
  for (std::int64_t v = 0; v < row.vectors; ++v) {
    const Vec x = load(row.scores + v * kLanes);
    const Vec share = exp(bounded(units * x, row.bound) - highest);
    total = total + select(x < least, broadcast(0.0f), share);
  }
  return {largest, fold_sum(total), common_value(exp(broadcast(before - largest)))};
}

// See Kernels::softmax_slopes.
static inline void softmax_slopes(const ScoreRow& row, float log_sum, float scale, float share) {
  const Vec middle = broadcast(log_sum), factor = broadcast(scale), off = broadcast(share);
  const Vec units = broadcast(row.unit), bound = broadcast(row.bound), zero = broadcast(0.0f);
  for (std::int64_t v = 0; v < row.vectors; ++v) {
    const Vec x = units * load(row.scores + v * kLanes);
    Vec slope = factor * (exp(bounded(x, row.bound) - middle) - off);
    if (row.bound > 0.0f) slope = select(bound < abs(x), zero, slope);
    store(row.scores + v * kLanes, slope);
  }
}

}  // namespace frugal::FRUGAL_ISA
