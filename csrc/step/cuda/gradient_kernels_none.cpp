// In builds without CUDA nobody has device memory to call these with.
#include "device/device_error.h"
#include "step/cuda/gradient_kernels.h"

namespace frugal::cuda {

std::int64_t workspace_floats(const ModelSpec&, bool, std::int64_t, std::int64_t, std::int64_t) { return 0; }

void compute_gradients(const ModelSpec&, const LossSpec&, bool, const DeviceBatch&, DeviceRows, DeviceRows,
                       const RecordReads&, const RecordReads&, const DeviceGradients&, Products,
                       const DeviceExchange*, std::uintptr_t) {
  throw DeviceError("this build of dglke_frugal has no CUDA kernels; reinstall it where nvcc is found");
}

}  // namespace frugal::cuda
