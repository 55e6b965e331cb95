// Launches one after the other.
#pragma once

#include <string>

namespace frugal::cuda {

inline void wait_for_earlier_kernels() {}

template <typename... Parameters, typename... Arguments>
void launch_behind(void (*kernel)(Parameters...), std::size_t blocks, int threads, std::size_t bytes, cudaStream_t,
                   const std::string&, const Arguments&... arguments) {
  emulation::launch(static_cast<unsigned>(blocks), threads, bytes, [=] { kernel(arguments...); });
}

}  // namespace frugal::cuda
