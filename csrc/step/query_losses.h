// Scores and losses of a block of queries, whatever their negatives went through.
#pragma once

#include "step/gradients.h"
#include "step/shape.h"

namespace frugal {

// The facts of one positive that its losses need.
struct ScoredQuery {
  std::int64_t edge;  // position in the batch
  float positive_score;
  float square;  // |query|^2, for Similarity::kL2
};

// Turns the raw comparisons of one query into weights d loss / d comparison, in place; stores the losses of its
// positive. slope: scratch of whole vectors. negative_square: |negative|^2, for Similarity::kL2. Returns d loss / d
// positive score.
inline float take_losses(const PassContext& context, const Batch& batch, const BatchShape& shape,
                         const ScoredQuery& query, const float* negative_square, float* values, float* slope,
                         EdgeGradients& out) {
  const LossSpec& loss = context.loss;
  const float importance = batch.weight.empty() ? 1.0f : batch.weight[query.edge];
  QueryRow row{};
  row.values = values;
  row.slope = slope;
  row.negatives = shape.columns;
  row.vectors = shape.vectors;
  row.own = context.degree_negatives ? query.edge % shape.chunk_size : -1;
  row.query_square = query.square;
  row.negative_square = negative_square;
  row.gamma = context.model.spec().gamma;
  row.positive_score = query.positive_score;
  row.scale = importance * (loss.joint() ? 1.0f : 0.5f) / static_cast<float>(shape.positives);
  const QueryLoss negatives = context.kernels.score(context.model.similarity(), loss, row);
  out.negative_loss[query.edge] = static_cast<double>(importance) * negatives.loss;
  if (loss.joint()) {
    out.positive_loss[query.edge] = 0.0;
    return negatives.positive_derivative;
  }
  const LossValue positive = context.kernels.positive(loss, query.positive_score);
  out.positive_loss[query.edge] = static_cast<double>(importance) * positive.loss;
  return row.scale * positive.derivative;
}

}  // namespace frugal
