// From row ids to memory: a check that stands between a caller's ids and raw pointers.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "memory/host_table.h"

namespace frugal {

// Throws std::out_of_range naming the first id that is not in [0, rows).
inline void check_row_ids(const std::int64_t* ids, std::int64_t count, std::int64_t rows) {
  for (std::int64_t i = 0; i < count; ++i)
    if (ids[i] < 0 || ids[i] >= rows)
      throw std::out_of_range("row id " + std::to_string(ids[i]) + " at position " + std::to_string(i) +
                              " is outside the table of " + std::to_string(rows) + " rows");
}

// The records of `ids` in the table. Throws as check_row_ids.
inline std::vector<float*> records_of(HostTable& table, const std::int64_t* ids, std::int64_t count) {
  check_row_ids(ids, count, table.rows());
  std::vector<float*> records(count);
  for (std::int64_t i = 0; i < count; ++i) records[i] = table.row(ids[i]);
  return records;
}

}  // namespace frugal
