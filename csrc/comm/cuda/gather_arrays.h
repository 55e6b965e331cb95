// Arrays that ranks gather (comm/gather_arrays.h) in device memory, in a stream or graph. Before `put_arrays` and
// between the two there is a barrier (exchange_kernels.h).
#pragma once

#include <span>

#include "comm/cuda/exchange_kernels.h"
#include "comm/gather_arrays.h"

namespace frugal::cuda {

// Enqueues: this rank's rows go where the other ranks read them. Throws DeviceError if a launch fails.
void put_arrays(const DeviceExchange& exchange, std::span<const GatheredArray> arrays, std::uintptr_t stream);

// Enqueues: the rows of the other ranks come into the arrays. Throws DeviceError if a launch fails.
void take_arrays(const DeviceExchange& exchange, std::span<const GatheredArray> arrays, std::uintptr_t stream);

}  // namespace frugal::cuda
