#pragma once

#include <stdexcept>

namespace frugal {

// A CUDA call failed, or there is no CUDA to call. The message names the call, the error, sizes and limits.
class DeviceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace frugal
