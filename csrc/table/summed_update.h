// Optimizers that update a row once per step, from the sum of its gradients: what torch does with a sparse gradient.
//
// The gradients of a row's occurrences are added in the order of the occurrences, beginning with 0; where several ranks
// use the row in one step, each rank's sum is added in the order of ranks. With g the sum and w the row:
//   SGD              w -= lr * g
//   row-wise Adagrad s += mean(g * g), one s per row (mean_square.h has its order);  w -= lr * g / (sqrt(s) + eps)
//   Adagrad          s += g * g, one s per element;                                  w -= lr * g / (sqrt(s) + eps)
//   Adam             m += (1 - b1) (g - m), v += (1 - b2) (g * g - v), one of each per element, and in update t from 1
//   on
//                    w -= lr / (1 - b1^t) * m / (sqrt(v) / sqrt(1 - b2^t) + eps)
//   row-wise Adam    the same with v += (1 - b2) (mean(g * g) - v), one v per row, which lies behind the row's m
// Before all else, where there is a largest norm: g *= norm / |g| if |g| is larger.
// Source: torch.optim.SGD and torch.optim.Adagrad for sparse gradients, torch.optim.Adam; the row-wise ones as FBGEMM
// and DLRM have them.
#pragma once

#include <cstdint>
#include <string>

#include "base/device/everywhere.h"

namespace frugal {

enum class Optimizer : std::uint8_t { kSgd, kRowwiseAdagrad, kAdagrad, kAdam, kRowwiseAdam };

// "sgd", "rowwise_adagrad", "adagrad", "adam" or "rowwise_adam"; throws std::invalid_argument for another name.
Optimizer optimizer_named(const std::string& name);

// The numbers of an optimizer that a kernel needs.
struct UpdateRule {
  Optimizer optimizer = Optimizer::kSgd;
  float learning_rate = 0.0f;
  float epsilon = 0.0f;
  // Adam, where a device alone knows the step's number: (2,) `corrected_rate` and `root_rate`, where the kernel runs.
  const float* corrections = nullptr;
  // (1,) there, too: by what a kernel multiplies the sums that it is given. Null: by nothing.
  const float* unit = nullptr;
  float mean_rate = 0.1f, square_rate = 0.001f;      // Adam: 1 - b1, 1 - b2
  float corrected_rate = 0.0f, root_rate = 0.0f;     // Adam: lr / (1 - b1^t) and 1 / sqrt(1 - b2^t) of this step
  float largest_norm = 0.0f;                         // of a row's sum of gradients; 0: any
  bool skips = false;                                // rows leave with their states as they are

  // Floats of state behind a row of `dim` floats.
  FRUGAL_EVERYWHERE std::int64_t state_floats(std::int64_t dim) const {
    switch (optimizer) {
      case Optimizer::kSgd: return 0;
      case Optimizer::kRowwiseAdagrad: return 1;
      case Optimizer::kAdagrad: return dim;
      case Optimizer::kAdam: return 2 * dim;
      case Optimizer::kRowwiseAdam: return dim + 1;
    }
    return 0;
  }
  // Whether an element's update needs no other element of its row.
  FRUGAL_EVERYWHERE bool by_element() const { return !by_row() && largest_norm == 0.0f; }
  // Whether the elements of a row share a state.
  FRUGAL_EVERYWHERE bool by_row() const {
    return optimizer == Optimizer::kRowwiseAdagrad || optimizer == Optimizer::kRowwiseAdam;
  }
};

}  // namespace frugal
