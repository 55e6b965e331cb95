// Optimizers that update a row once per step, from the sum of its gradients: what torch does with a sparse gradient.
//
// The gradients of a row's occurrences are added in the order of the occurrences, beginning with 0; where several ranks
// use the row in one step, each rank's sum is added in the order of ranks. With g the sum and w the row:
//   SGD              w -= lr * g
//   row-wise Adagrad s += mean(g * g), one s per row (mean_square.h has its order);  w -= lr * g / (sqrt(s) + eps)
//   Adagrad          s += g * g, one s per element;                                  w -= lr * g / (sqrt(s) + eps)
// Source: torch.optim.SGD and torch.optim.Adagrad for sparse gradients; row-wise Adagrad as FBGEMM and DLRM have it.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "optim/row_update.h"

namespace frugal {

enum class Optimizer : std::uint8_t { kSgd, kRowwiseAdagrad, kAdagrad };

// "sgd", "rowwise_adagrad" or "adagrad"; throws std::invalid_argument for another name.
Optimizer optimizer_named(const std::string& name);

// What a kernel needs to know of an optimizer.
struct UpdateRule {
  Optimizer optimizer = Optimizer::kSgd;
  float learning_rate = 0.0f;
  float epsilon = 0.0f;

  // Floats of state behind a row of `dim` floats.
  std::int64_t state_floats(std::int64_t dim) const {
    return optimizer == Optimizer::kSgd ? 0 : optimizer == Optimizer::kRowwiseAdagrad ? 1 : dim;
  }
};

class SummedUpdate final : public RowUpdate {
 public:
  explicit SummedUpdate(const UpdateRule& rule) : rule_(rule) {}
  const UpdateRule& rule() const { return rule_; }
  // For the steps that begin afterwards; not where several ranks train.
  void set_learning_rate(float learning_rate) { rule_.learning_rate = learning_rate; }

  // gradients: one sum per rank.
  void apply(float* row, std::span<const float* const> gradients, const RowLayout& layout) const override;

 private:
  UpdateRule rule_;
};

}  // namespace frugal
