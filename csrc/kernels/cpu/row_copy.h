// Copies between a table's rows and dense matrices.
#pragma once

#include <cstdint>

#include "memory/host_table.h"

namespace frugal {

// out[i] = embedding of row ids[i]; out is (count, dim), contiguous. Throws std::out_of_range for an id outside the table,
// before anything is written.
void gather_rows(HostTable& table, const std::int64_t* ids, std::int64_t count, float* out);

}  // namespace frugal
