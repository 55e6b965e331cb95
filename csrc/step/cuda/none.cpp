// What stands for the CUDA sources of this folder in a build without CUDA, where nobody has device memory.
#include "device/device_error.h"
#include "step/cuda/loss_from_scores.h"
#include "step/cuda/gradient_kernels.h"

namespace frugal::cuda {

std::int64_t workspace_floats(const ModelSpec&, bool, std::int64_t, std::int64_t, std::int64_t) { return 0; }

void compute_gradients(const ModelSpec&, const LossSpec&, bool, const DeviceBatch&, DeviceRows, DeviceRows,
                       const RecordReads&, const RecordReads&, const DeviceGradients&, Products,
                       const DeviceExchange*, std::uintptr_t) {
  refuse_cuda();
}

void loss_from_scores(const LossSpec&, const ScoredPositives&, const Launch&) { refuse_cuda(); }
void penalize(const LossSpec&, std::span<const PenalizedRows>, const Launch&) { refuse_cuda(); }
void add_losses(const LossSpec&, std::span<const float>, std::span<const float>, double*, const Launch&) {
  refuse_cuda();
}

}  // namespace frugal::cuda
