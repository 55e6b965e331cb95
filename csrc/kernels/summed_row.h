// How a row leaves a step that updates it once, from the sum of its gradients (optim/summed_update.h): one warp's work,
// written once for both machines as kernels/row_program.h is, and with the same bits on both.
#pragma once

#include "kernels/row_program.h"
#include "optim/summed_update.h"

#ifdef __CUDACC__
#define FRUGAL_INDEPENDENT
#else
#define FRUGAL_INDEPENDENT _Pragma("GCC ivdep")  // `to` may be `record`, but never one element further
#endif

namespace frugal {

// Row `record` (embedding and state) leaves to `to`, which may be the record itself. The warp's lane `lane` of kLanes
// does every kLanes-th element; on the CPU there is one that does all. sum: dim floats. power: sum_level_power.
template <class Warp, int kLanes>
FRUGAL_WARP_CODE void update_from_sum(float* to, const float* record, const float* sum, std::int64_t dim,
                                      const UpdateRule& rule, int power, int lane) {
  const float negative_rate = -rule.learning_rate;
  switch (rule.optimizer) {
    case Optimizer::kSgd:
      FRUGAL_INDEPENDENT
      for (std::int64_t i = lane; i < dim; i += kLanes) to[i] = record[i] + negative_rate * sum[i];
      return;
    case Optimizer::kRowwiseAdagrad: {
      const float* const gradient[1] = {sum};
      const float before = record[dim];  // by every lane, ere they meet: one stores the state over it below
      float mean[1];
      warp_mean_squares<Warp, 1>(gradient, dim, power, mean);
      const float state = before + mean[0];
      const float deviation = Warp::square_root(state) + rule.epsilon;
      FRUGAL_INDEPENDENT
      for (std::int64_t i = lane; i < dim; i += kLanes) to[i] = record[i] + negative_rate * sum[i] / deviation;
      Warp::store_one(to + dim, state);
      return;
    }
    case Optimizer::kAdagrad:
      FRUGAL_INDEPENDENT
      for (std::int64_t i = lane; i < dim; i += kLanes) {
        const float state = record[dim + i] + sum[i] * sum[i];
        to[dim + i] = state;
        to[i] = record[i] + negative_rate * sum[i] / (Warp::square_root(state) + rule.epsilon);
      }
      return;
    case Optimizer::kAdam:
      FRUGAL_INDEPENDENT
      for (std::int64_t i = lane; i < dim; i += kLanes) {
        const float mean = record[dim + i] + kAdamRate * (sum[i] - record[dim + i]);
        const float square = record[2 * dim + i] + kAdamSquareRate * (sum[i] * sum[i] - record[2 * dim + i]);
        to[dim + i] = mean;
        to[2 * dim + i] = square;
        to[i] = record[i] - rule.corrections[0] * mean /
                                (Warp::square_root(square) * rule.corrections[1] + rule.epsilon);
      }
  }
}

// Row u leaves as its plan says: updated, or as the sum of its gradients where other ranks use it too.
template <class Warp, int kLanes>
FRUGAL_WARP_CODE void leave_with_sum(const RowMemory& memory, RowDestination leave, std::int64_t target,
                                     const float* record, const float* sum, const UpdateRule& rule, int power,
                                     int lane) {
  float* const to = target_of(memory, leave, target);
  if (leave == RowDestination::kGradient)
    copy_row<Warp>(to, sum, memory.dim);
  else
    update_from_sum<Warp, kLanes>(to, record, sum, memory.dim, rule, power, lane);
}

}  // namespace frugal
