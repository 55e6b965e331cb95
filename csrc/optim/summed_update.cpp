#include "optim/summed_update.h"

#include <cmath>
#include <stdexcept>
#include <vector>

#include "optim/mean_square.h"

namespace frugal {

Optimizer optimizer_named(const std::string& name) {
  if (name == "sgd") return Optimizer::kSgd;
  if (name == "rowwise_adagrad") return Optimizer::kRowwiseAdagrad;
  if (name == "adagrad") return Optimizer::kAdagrad;
  throw std::invalid_argument("no optimizer '" + name + "'; there are sgd, rowwise_adagrad and adagrad");
}

void SummedUpdate::apply(float* row, std::span<const float* const> gradients, const RowLayout& layout) const {
  static thread_local std::vector<float> sum;  // grows once
  const std::int64_t dim = layout.dim;
  sum.assign(static_cast<std::size_t>(dim), 0.0f);
  for (const float* gradient : gradients)
    for (std::int64_t i = 0; i < dim; ++i) sum[static_cast<std::size_t>(i)] += gradient[i];
  float* const state = row + layout.state_offset();
  const float* const g = sum.data();
  const float negative_rate = -rule_.learning_rate;
  switch (rule_.optimizer) {
    case Optimizer::kSgd:
      for (std::int64_t i = 0; i < dim; ++i) row[i] += negative_rate * g[i];
      break;
    case Optimizer::kRowwiseAdagrad: {
      *state += mean_square(g, dim);
      const float deviation = std::sqrt(*state) + rule_.epsilon;
      for (std::int64_t i = 0; i < dim; ++i) row[i] += negative_rate * g[i] / deviation;
      break;
    }
    case Optimizer::kAdagrad:
      for (std::int64_t i = 0; i < dim; ++i) {
        state[i] += g[i] * g[i];
        row[i] += negative_rate * g[i] / (std::sqrt(state[i]) + rule_.epsilon);
      }
      break;
    case Optimizer::kAdam:
      throw std::logic_error("Adam needs to know the step");
  }
}

}  // namespace frugal
