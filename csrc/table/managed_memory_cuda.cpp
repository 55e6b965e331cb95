#include "base/device/cuda_check.h"
#include "table/managed_memory.h"

namespace frugal {
namespace {

constexpr int kHost = -1;

void advise(void* memory, std::size_t bytes, cudaMemoryAdvise advice, int device) {
#if CUDART_VERSION >= 13000
  const cudaMemLocation where{device == kHost ? cudaMemLocationTypeHost : cudaMemLocationTypeDevice,
                              device == kHost ? 0 : device};
#else
  const int where = device == kHost ? cudaCpuDeviceId : device;
#endif
  cuda_check(cudaMemAdvise(memory, bytes, advice, where), "cudaMemAdvise");
}

}  // namespace

bool ManagedMemory::is_available() {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess) {
    cudaGetLastError();
    return false;
  }
  for (int device = 0; device < devices; ++device) {
    int shares = 0;
    if (cudaDeviceGetAttribute(&shares, cudaDevAttrConcurrentManagedAccess, device) != cudaSuccess || !shares)
      return false;
  }
  return devices > 0;
}

ManagedMemory::ManagedMemory(std::int64_t bytes) : bytes_(static_cast<std::size_t>(bytes)) {
  cuda_check(cudaMallocManaged(reinterpret_cast<void**>(&data_), bytes_, cudaMemAttachGlobal), "cudaMallocManaged",
             "for a table of " + std::to_string(bytes_) + " bytes");
  advise(data_, bytes_, cudaMemAdviseSetPreferredLocation, kHost);
}

ManagedMemory::~ManagedMemory() {
  cudaFree(data_);
  cudaGetLastError();  // at exit the driver may be gone already
}

void ManagedMemory::map_for(int device) { advise(data_, bytes_, cudaMemAdviseSetAccessedBy, device); }

}  // namespace frugal
