// From the raw comparisons of one query to the weights of its pairs, through scores and losses.
#pragma once

#include "models/row_loss.h"
#include "models/similarity/similarity.h"

namespace frugal::FRUGAL_ISA {

// S: one of the similarities. See Kernels::score. On a device by the teams of a row (row_loss.h).
template <typename S>
FRUGAL_LANES QueryLoss score_row(const LossSpec& loss, const QueryRow& row) {
  for_vectors(row.vectors, row.values, [&](std::int64_t v, Vec& x) {
    Vec slope;
    x = S::score(row, v, x, slope);
    store(row.slope + v * kLanes, slope);
  });
  sync_teams();  // what follows writes where others did
  for (std::int64_t j = row.negatives; j < row.vectors * kLanes; ++j) row.values[j] = kNoScore;
  if (row.own >= 0) {
    row.values[row.own] = loss.genre == LossGenre::kSoftmax ? kNoScore : 0.0f;
    row.slope[row.own] = 0.0f;
  }
  sync_teams();
  const RowLoss result =
      row_loss(loss, row.positive_score, row.scale, row.negatives, row.vectors, row.values, row.terms);
  for_vectors(row.vectors, row.values,
              [&](std::int64_t v, Vec& x) { x = x * load(row.slope + v * kLanes); });
  return {result.loss, result.positive_derivative};
}

}  // namespace frugal::FRUGAL_ISA
