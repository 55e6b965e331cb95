#include "table/row_update.h"

#include "table/row_adagrad.h"

namespace frugal {

void RowAdagradUpdate::apply(float* row, std::span<const float* const> gradients, const RowLayout& layout) const {
  const RowAdagrad adagrad{learning_rate_};
  float& state = row[layout.state_offset()];
  for (const float* gradient : gradients) adagrad.accumulate(state, gradient, layout.dim);
  for (const float* gradient : gradients) adagrad.apply(row, state, gradient, layout.dim);
}

}  // namespace frugal
