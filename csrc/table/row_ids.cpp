#include "table/row_ids.h"

#include <stdexcept>
#include <string>

namespace frugal {

void check_row_ids(const std::int64_t* ids, std::int64_t count, std::int64_t rows) {
  for (std::int64_t i = 0; i < count; ++i)
    if (ids[i] < 0 || ids[i] >= rows)
      throw std::out_of_range("row id " + std::to_string(ids[i]) + " at position " + std::to_string(i) +
                              " is outside the table of " + std::to_string(rows) + " rows");
}

std::vector<float*> records_of(HostTable& table, const std::int64_t* ids, std::int64_t count) {
  check_row_ids(ids, count, table.rows());
  std::vector<float*> records(count);
  for (std::int64_t i = 0; i < count; ++i) records[i] = table.row(ids[i]);
  return records;
}

}  // namespace frugal
