#include "step/loss_from_scores.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "models/similarity/similarity.h"
#include "step/regularization.h"
#include "step/shape.h"
#include "table/mean_square.h"

namespace frugal::cpu {

using FRUGAL_ISA::regularize;

void loss_from_scores(const LossSpec& loss, const ScoredPositives& s) {
  const Kernels& kernels = frugal::kernels();
  const std::int64_t vectors = pieces(s.columns, kVector);
  std::vector<float> values(vectors * kVector), slope(values.size());
  for (std::int64_t edge = 0; edge < s.positives; ++edge) {
    const float importance = s.weight ? s.weight[edge] : 1.0f;
    float *const scores = s.scores + edge * s.columns, *const losses = s.losses + 2 * edge;
    std::copy_n(scores, s.columns, values.begin());
    QueryRow row{};
    row.values = values.data();
    row.slope = slope.data();
    row.negatives = s.columns;
    row.vectors = vectors;
    row.own = s.own > 0 ? edge % s.own : -1;
    row.positive_score = s.positive[edge];
    row.scale = importance * (loss.joint() ? 1.0f : 0.5f) / static_cast<float>(s.positives);
    const QueryLoss negatives = kernels.score(Similarity::kDot, loss, row);  // whose values are scores
    std::copy_n(values.begin(), s.columns, scores);
    losses[0] = 0.0f;
    losses[1] = importance * negatives.loss;
    s.positive_slope[edge] = negatives.positive_derivative;
    if (loss.joint()) continue;
    const LossValue positive = kernels.positive(loss, s.positive[edge]);
    losses[0] = importance * positive.loss;
    s.positive_slope[edge] = row.scale * positive.derivative;
  }
}

void penalize(const LossSpec& loss, std::span<const PenalizedRows> tables) {
  std::vector<float> penalty;
  for (const PenalizedRows& table : tables) {
    penalty.resize(table.dim);
    for (std::int64_t i = 0; i < table.count; ++i) {
      table.amounts[i] = table.squares[i] = 0.0f;
      if (!table.is_read(i)) continue;
      table.amounts[i] = regularize(loss, table.row(i), table.dim, penalty.data());
      float* const gradient = table.gradients + i * table.dim;
      add_to(gradient, penalty.data(), table.dim);
      table.squares[i] = mean_square(gradient, table.dim);
    }
  }
}

void add_losses(const LossSpec& loss, std::span<const float> losses, std::span<const float> amounts, double* sums) {
  double positive = 0.0, negative = 0.0;
  for (std::size_t i = 0; i < losses.size(); i += 2) positive += losses[i], negative += losses[i + 1];
  const double count = static_cast<double>(losses.size() / 2);
  const double penalty =
      loss.regularization_coefficient * std::accumulate(amounts.begin(), amounts.end(), 0.0);
  positive /= count, negative /= count;
  if (!loss.joint()) sums[0] += positive, sums[1] += negative;
  sums[2] += penalty;
  sums[3] += (loss.joint() ? negative : 0.5 * (positive + negative)) + penalty;
}

}  // namespace frugal::cpu
