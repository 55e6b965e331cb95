// The rule for a list of a step's rows: ids of the table, ascending, each once.
#pragma once

#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>

namespace frugal {

inline bool is_row_list(std::span<const std::int64_t> rows, std::int64_t table_rows) {
  bool wrong = !rows.empty() && (rows.front() < 0 || rows.front() >= table_rows);
  for (std::size_t i = 1; i < rows.size(); ++i) wrong |= (rows[i] >= table_rows) | (rows[i] <= rows[i - 1]);
  return !wrong;
}

// Of a list that is none: says where.
[[noreturn]] inline void refuse_row_list(std::span<const std::int64_t> rows, std::int64_t table_rows) {
  std::size_t i = 0;
  while (i + 1 < rows.size() && rows[i] >= 0 && rows[i] < table_rows && (i == 0 || rows[i] > rows[i - 1])) ++i;
  throw std::invalid_argument("Row " + std::to_string(rows[i]) + " at position " + std::to_string(i) +
                              " is out of range or not in ascending order.");
}

}  // namespace frugal
