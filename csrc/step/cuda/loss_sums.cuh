// A step's losses, as they are added to the sums that a log reads.
#pragma once

#include "models/loss.h"

namespace frugal::cuda {

// By a block: adds up its threads' parts of the losses of positives and negatives and of penalties, in a fixed order,
// and adds what they make to the sums: losses of positives, of negatives, penalty, whole loss.
template <int kThreads>
__device__ inline void add_to_sums(const LossSpec& loss, std::int64_t positives, double positive, double negative,
                                   double penalty, double* sums) {
  __shared__ double partial[3][kThreads];
  partial[0][threadIdx.x] = positive;
  partial[1][threadIdx.x] = negative;
  partial[2][threadIdx.x] = penalty;
  for (int half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half)
      for (auto& each : partial) each[threadIdx.x] += each[threadIdx.x + half];
  }
  if (threadIdx.x != 0) return;
  const double count = static_cast<double>(positives);
  positive = partial[0][0] / count;
  negative = partial[1][0] / count;
  penalty = partial[2][0] * loss.regularization_coefficient;
  if (!loss.joint()) {
    sums[0] += positive;
    sums[1] += negative;
  }
  sums[2] += penalty;
  sums[3] += (loss.joint() ? negative : 0.5 * (positive + negative)) + penalty;
}

}  // namespace frugal::cuda
