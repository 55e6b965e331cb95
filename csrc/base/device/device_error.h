#pragma once

#include <stdexcept>

namespace frugal {

// A CUDA call failed, or there is no CUDA to call. The message names the call, the error, sizes and limits.
class DeviceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Why a build without CUDA does nothing on a device.
inline constexpr const char* kBuiltWithoutCuda =
    "this build of dglke_frugal has no CUDA kernels; build it again with DGLKE_FRUGAL_CUDA=on, which needs nvcc";

[[noreturn]] inline void refuse_cuda() { throw DeviceError(kBuiltWithoutCuda); }

}  // namespace frugal
