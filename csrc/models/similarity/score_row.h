// From the raw comparisons of one query to the weights of its pairs, through scores and losses.
#pragma once

#include "loss/row_loss.h"
#include "models/similarity/similarity.h"

namespace frugal::FRUGAL_ISA {

// S: one of the similarities. See Kernels::score.
template <typename S>
FRUGAL_LANES QueryLoss score_row(const LossSpec& loss, const QueryRow& row) {
  for (std::int64_t v = 0; v < row.vectors; ++v) {
    Vec slope;
    store(row.values + v * kLanes, S::score(row, v, load(row.values + v * kLanes), slope));
    store(row.slope + v * kLanes, slope);
  }
  meet_lanes();  // what follows writes where other lanes did
  for (std::int64_t j = row.negatives; j < row.vectors * kLanes; ++j) row.values[j] = kNoScore;
  if (row.own >= 0) row.values[row.own] = row.slope[row.own] = 0.0f;
  meet_lanes();
  const RowLoss result = row_loss(loss, row.positive_score, row.scale, row.negatives, row.vectors, row.values);
  for (std::int64_t v = 0; v < row.vectors; ++v)
    store(row.values + v * kLanes, load(row.values + v * kLanes) * load(row.slope + v * kLanes));
  return {result.loss, result.positive_derivative};
}

}  // namespace frugal::FRUGAL_ISA
