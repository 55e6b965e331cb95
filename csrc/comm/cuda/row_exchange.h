// The exchange of rows (comm/row_exchange.h) on devices that reach each other's memory; the reference, to the bit, is
// cpu/row_exchange.h, which says what the calls do. Each enqueues one kernel.
#pragma once

#include "comm/row_exchange.h"

namespace frugal::cuda {

// turn: in device memory, zeroed, for the kernel's own use. Throw DeviceError if the launch fails.
void send_values(const RowExchange& exchange, const OwnedRows& owned, const float* values, std::uint64_t number,
          unsigned* turn, std::uintptr_t stream);
void fetch_sums(const RowExchange& exchange, const OwnedRows& owned, float* sums, std::uint64_t number,
          std::uintptr_t stream);

}  // namespace frugal::cuda
