// What stands for the CUDA sources of this folder in a build without CUDA, where nobody has device memory.
#include "device/device_error.h"
#include "replicas/cuda/replica_updates.h"
#include "replicas/cuda/shared_updates.h"

namespace frugal::cuda {

void send_sums(const DeviceExchange&, const ReplicaPart&, const ReplicaRows&, std::uintptr_t) { refuse_cuda(); }

void apply_sums(const DeviceExchange&, const ReplicaPart&, float*, std::int64_t, float, std::uintptr_t) {
  refuse_cuda();
}

void put_shared(const DeviceExchange&, const SharedPart&, const SharedRows&, std::uintptr_t) { refuse_cuda(); }

void apply_shared(const DeviceExchange&, const SharedPart&, const SharedRows&, const SharedMemory&, float,
                  std::uintptr_t) {
  refuse_cuda();
}

}  // namespace frugal::cuda
