// Copies between a device and host memory, in the device's order of work.
#pragma once

#include <cstddef>
#include <cstdint>

namespace frugal {

// Enqueues a copy of `bytes` bytes on a cudaStream_t. Host memory is pinned or registered, and stays as it is until the
// copy is done. Throws DeviceError.
void enqueue_copy(void* to, const void* from, std::size_t bytes, std::uintptr_t stream);

}  // namespace frugal
