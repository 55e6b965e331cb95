// Every CUDA call goes through here, so that a failure is a sentence with the call's name. Needs the CUDA runtime's
// headers.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "base/device/device_error.h"

namespace frugal {

// Throws DeviceError unless status is cudaSuccess. call: what was called; details: with which sizes, and what may help.
inline void cuda_check(cudaError_t status, const std::string& call, const std::string& details = "") {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // an error that is not sticky must not surface again in somebody else's next call
  throw DeviceError(call + " failed: " + cudaGetErrorString(status) + " (" + cudaGetErrorName(status) + ")" +
                    (details.empty() ? "" : "; " + details));
}

}  // namespace frugal
