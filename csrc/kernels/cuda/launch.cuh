// Launches of kernels that follow one another on a stream, each of which is made ready while the one before still runs
// (programmatic dependent launch, from compute capability 9.0 on; elsewhere ordinary launches).
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdlib>
#include <string>

#include "device/cuda_check.h"

namespace frugal::cuda {

// To be called first, by every thread of a kernel that is launched with launch_behind: lets the next kernel be made
// ready, and returns when all kernels before this one are done and what they wrote is visible.
__device__ inline void wait_for_earlier_kernels() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Whether the running code was compiled for a device of this kind, and not only translated for it.
template <typename Kernel>
bool compiled_for(Kernel kernel, int capability) {
  cudaFuncAttributes attributes{};
  cuda_check(cudaFuncGetAttributes(&attributes, kernel), "looking at a kernel");
  return attributes.ptxVersion >= capability;
}

// kernel calls wait_for_earlier_kernels; so does, or is launched without overlap, the kernel before it.
template <typename... Parameters, typename... Arguments>
void launch_behind(void (*kernel)(Parameters...), std::size_t blocks, int threads, std::size_t bytes,
                   cudaStream_t stream, const std::string& name, const Arguments&... arguments) {
  static const bool overlaps = compiled_for(kernel, 90);
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = bytes;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = overlaps && !std::getenv("FRUGAL_NO_PDL") ? 1 : 0;
  cuda_check(cudaLaunchKernelEx(&config, kernel, arguments...), "launching " + name);
}

}  // namespace frugal::cuda
