// Shared rows on CUDA devices; the reference, to the bit, is cpu/shared_updates.h. Between the two, and before the rows
// are read again, the devices synchronise (comm/cuda/exchange_kernels.h).
#pragma once

#include "comm/cuda/exchange_kernels.h"
#include "comm/shared_rows.h"

namespace frugal::cuda {

// Enqueues: this rank's part goes to where all ranks read it. Throws DeviceError if the launch fails.
void put_shared(const DeviceExchange& exchange, const SharedPart& part, const SharedRows& rows, std::uintptr_t stream);

// Enqueues: applies the gradients of the rows that are this rank's turn (SharedPart::turn). After a failure of some
// rank the rows are worthless. Throws DeviceError if the launch fails.
void apply_shared(const DeviceExchange& exchange, const SharedPart& part, const SharedRows& rows,
                  const SharedMemory& memory, float learning_rate, std::uintptr_t stream);

}  // namespace frugal::cuda
