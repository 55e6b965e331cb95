#include "table/row_update.h"

#include "table/row_adagrad.h"

namespace frugal {

void RowAdagradUpdate::apply(float* row, std::span<const float* const> gradients, const RowLayout& layout) const {
  const RowAdagrad adagrad{learning_rate_};
  float& state = row[layout.state_offset()];
  for (const float* gradient : gradients) adagrad.accumulate(state, gradient, layout.dim);
  for (const float* gradient : gradients) adagrad.apply(row, state, gradient, layout.dim);
}

void SgdUpdate::apply(float* row, std::span<const float* const> gradients, const RowLayout& layout) const {
  const float negative_rate = -learning_rate_;
  for (const float* __restrict gradient : gradients)
    for (std::int64_t i = 0; i < layout.dim; ++i) row[i] += negative_rate * gradient[i];
}

}  // namespace frugal
