// From row ids to memory: a check that stands between a caller's ids and raw pointers.
#pragma once

#include <cstdint>
#include <vector>

#include "table/host_table.h"

namespace frugal {

// Throws std::out_of_range naming the first id that is not in [0, rows).
void check_row_ids(const std::int64_t* ids, std::int64_t count, std::int64_t rows);

// The records of `ids` in the table. Throws as check_row_ids.
std::vector<float*> records_of(HostTable& table, const std::int64_t* ids, std::int64_t count);

}  // namespace frugal
