#include "device/device_error.h"
#include "replicas/cuda/shared_updates.h"

namespace frugal::cuda {

void put_shared(const DeviceExchange&, const SharedPart&, const SharedRows&, std::uintptr_t) {
  throw DeviceError("this build has no CUDA kernels");
}

void apply_shared(const DeviceExchange&, const SharedPart&, const SharedRows&, const SharedMemory&, float,
                  std::uintptr_t) {
  throw DeviceError("this build has no CUDA kernels");
}

}  // namespace frugal::cuda
