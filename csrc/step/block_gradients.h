// The gradients of a packed step on the CPU: the reference for cuda/gradient_kernels.h, with the same arguments.
#pragma once

#include "step/cuda/gradient_kernels.h"
#include "step/train_step.h"

namespace frugal {

// All pointers of the arguments are to host memory; the workspace is not used. One caller of a step at a time.
void compute_gradients(TrainStep& step, const cuda::DeviceBatch& batch, cuda::DeviceRows entities,
                       cuda::DeviceRows relations, const cuda::DeviceGradients& out, ColumnRanks* ranks = nullptr);

}  // namespace frugal
