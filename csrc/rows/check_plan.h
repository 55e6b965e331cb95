// The checks that stand between a plan from outside the engine and raw memory.
#pragma once

#include <cstdint>

#include "rows/row_program.h"

namespace frugal {

// How large each part of a RowMemory is.
struct MemoryExtent {
  std::int64_t host_rows = 0;
  std::int64_t slots = 0;
  std::int64_t staging_floats = 0;
};

// All throw std::out_of_range that names the first row of the plan that points outside, before anything is touched.
void check_reads(const RowMemory& memory, const MemoryExtent& extent, const RowReads& reads);
void check_writes(const RowMemory& memory, const MemoryExtent& extent, const RowWrites& writes,
                  const StepGradients& gradients);
void check_row_write_backs(const MemoryExtent& extent, const RowWriteBacks& write_backs);
void check_evictions(const MemoryExtent& extent, const RowEvictions& evictions, const std::int64_t* target,
                     std::int64_t count);
void check_write_backs(const RowMemory& memory, const MemoryExtent& extent, const WriteBack* write_backs,
                       std::int64_t count);
// offset: (rows + 1,) ascending from 0 to at most occurrences; order: null or numbers in [0, values).
void check_occurrences(const std::int32_t* offset, std::int64_t rows, const std::int32_t* order,
                       std::int64_t occurrences, std::int64_t values);

}  // namespace frugal
