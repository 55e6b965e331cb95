// The build without CUDA: says so.
#include "device/device_error.h"
#include "step/cuda/gradient_kernels.h"

namespace frugal::cuda {

std::int64_t workspace_floats(const ModelSpec&, bool, std::int64_t, std::int64_t, std::int64_t) {
  throw DeviceError("this build of dglke_frugal has no CUDA kernels; reinstall it where nvcc is found");
}

void compute_gradients(const ModelSpec& model, const LossSpec&, bool degree_negatives, const DeviceBatch& batch,
                       DeviceRows, DeviceRows, const RecordReads&, const RecordReads&, const DeviceGradients&,
                       const DeviceExchange*, std::uintptr_t) {
  workspace_floats(model, degree_negatives, batch.positives, batch.chunk_size, batch.negatives_per_chunk);
}

}  // namespace frugal::cuda
