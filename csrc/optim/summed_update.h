// Optimizers that update a row once per step, from the sum of its gradients: what torch does with a sparse gradient.
//
// The gradients of a row's occurrences are added in the order of the occurrences, beginning with 0; where several ranks
// use the row in one step, each rank's sum is added in the order of ranks. With g the sum and w the row:
//   SGD              w -= lr * g
//   row-wise Adagrad s += mean(g * g), one s per row (mean_square.h has its order);  w -= lr * g / (sqrt(s) + eps)
//   Adagrad          s += g * g, one s per element;                                  w -= lr * g / (sqrt(s) + eps)
//   Adam             m += 0.1 (g - m), v += 0.001 (g * g - v), one of each per element, and in step t = 1, 2, ...
//                    w -= lr / (1 - 0.9^t) * m / (sqrt(v) / sqrt(1 - 0.999^t) + eps); for steps that tell t alone
// Source: torch.optim.SGD and torch.optim.Adagrad for sparse gradients, torch.optim.Adam; row-wise Adagrad as FBGEMM and
// DLRM have it.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "optim/row_update.h"

namespace frugal {

enum class Optimizer : std::uint8_t { kSgd, kRowwiseAdagrad, kAdagrad, kAdam };
inline constexpr float kAdamRate = 0.1f, kAdamSquareRate = 0.001f;  // 1 - beta_1, 1 - beta_2

// "sgd", "rowwise_adagrad" or "adagrad"; throws std::invalid_argument for another name.
Optimizer optimizer_named(const std::string& name);

// What a kernel needs to know of an optimizer.
struct UpdateRule {
  Optimizer optimizer = Optimizer::kSgd;
  float learning_rate = 0.0f;
  float epsilon = 0.0f;
  // Adam: (2,) lr / (1 - 0.9^t) and 1 / sqrt(1 - 0.999^t), where the kernel runs.
  const float* corrections = nullptr;
  // (1,) there, too: by what a kernel multiplies the sums that it is given. Null: by nothing.
  const float* unit = nullptr;

  // Floats of state behind a row of `dim` floats.
  std::int64_t state_floats(std::int64_t dim) const {
    if (optimizer == Optimizer::kAdam) return 2 * dim;
    return optimizer == Optimizer::kSgd ? 0 : optimizer == Optimizer::kRowwiseAdagrad ? 1 : dim;
  }
  // Whether an element's update needs no other element of its row.
  bool by_element() const { return optimizer != Optimizer::kRowwiseAdagrad; }
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
