// Losses and penalties of a step whose scores and gradients others compute (torch): from scores to slopes, from rows to
// their penalties, and from both to the figures that the step reports.
//
// The reference for cuda/loss_from_scores.h, which has the same bits but for sums of losses, which have another order.
#pragma once

#include <cstdint>
#include <span>

#include "models/loss.h"

namespace frugal {

struct ScoredPositives {
  std::int64_t positives, columns;
  std::int64_t own;       // positives of a chunk, if the first columns are their own side; else 0
  const float* positive;  // (positives,) scores
  float* scores;          // (positives, columns) of negatives; replaced by d loss / d score
  const float* weight;    // (positives,) edge importance, or null
  float* positive_slope;  // (positives,) d loss / d score
  float* losses;          // (positives, 2): that of a positive, 0 if joint, and of its negatives
};

// Rows with a gradient each, to which d penalty / d row is added.
struct PenalizedRows {
  const float* rows;          // (.., stride)
  std::int64_t stride, dim, count;
  const std::int32_t* slot;   // (count,) which row each is; null: those in order
  const std::int32_t* reads;  // (count + 1,) offsets: rows whose next offset is no larger are not read; null: all are
  float* gradients;           // (count, dim)
  float* amounts;             // (count,): sum of |x|^norm; 0 of rows that are not read
  float* squares;             // (count,): mean squares of the gradients with that, which the update needs first

  FRUGAL_EVERYWHERE bool is_read(std::int64_t i) const { return reads == nullptr || reads[i + 1] > reads[i]; }
  FRUGAL_EVERYWHERE const float* row(std::int64_t i) const { return rows + (slot == nullptr ? i : slot[i]) * stride; }
};
inline constexpr int kMostPenalized = 3;

namespace cpu {

void loss_from_scores(const LossSpec& loss, const ScoredPositives& scores);
void penalize(const LossSpec& loss, std::span<const PenalizedRows> tables);
// Adds the means of losses (positives, 2), and the penalty that is coefficient * sum of `amounts`, to sums (4,):
// positive, negative, regularization, total.
void add_losses(const LossSpec& loss, std::span<const float> losses, std::span<const float> amounts, double* sums);

}  // namespace cpu
}  // namespace frugal
