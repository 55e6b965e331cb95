// step/loss_from_scores.h on a CUDA device: a launch each.
#pragma once

#include "rows/cuda/plan_kernels.h"
#include "step/loss_from_scores.h"

namespace frugal::cuda {

// All pointers must be valid on the device. All throw DeviceError if a launch fails, or a row of scores is too long for
// shared memory.
void loss_from_scores(const LossSpec& loss, const ScoredPositives& scores, const Launch& launch);
void penalize(const LossSpec& loss, std::span<const PenalizedRows> tables, const Launch& launch);
void add_losses(const LossSpec& loss, std::span<const float> losses, std::span<const float> amounts, double* sums,
                const Launch& launch);

}  // namespace frugal::cuda
