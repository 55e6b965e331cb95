#include "base/device/copy.h"

#include "base/device/cuda_check.h"

namespace frugal {

void enqueue_copy(void* to, const void* from, std::size_t bytes, std::uintptr_t stream) {
  if (bytes == 0) return;
  cuda_check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, reinterpret_cast<cudaStream_t>(stream)),
             "copying " + std::to_string(bytes) + " bytes between host and device");
}

}  // namespace frugal
