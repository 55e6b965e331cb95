// The exchange of rows (comm/row_exchange.h) on the CPU: the reference for cuda/row_exchange.h.
#pragma once

#include "comm/row_exchange.h"

namespace frugal::cpu {

// values: of the owner's rows. number: of this call among all of send_values and fetch_sums, from 1.
void send_values(const RowExchange& exchange, const OwnedRows& owned, const float* values, std::uint64_t number);

// sums: of the owner's rows, to be set. If somebody has failed they stay as they are.
void fetch_sums(const RowExchange& exchange, const OwnedRows& owned, float* sums, std::uint64_t number);

}  // namespace frugal::cpu
