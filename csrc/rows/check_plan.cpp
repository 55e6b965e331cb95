#include "rows/check_plan.h"

#include <stdexcept>
#include <string>

namespace frugal {
namespace {

void require(bool good, std::int64_t u, const char* what) {
  if (!good) throw std::out_of_range("row " + std::to_string(u) + " of the plan " + what);
}

bool within(std::int64_t index, std::int64_t size) { return index >= 0 && index < size; }

void check_target(const RowMemory& memory, const MemoryExtent& extent, RowDestination leave, std::int64_t target,
                  std::int64_t records, std::int64_t u) {
  switch (leave) {
    case RowDestination::kCache:
    case RowDestination::kWriteBackBuffer:
    case RowDestination::kPublishedBeforeSync:
      return require(within(target, extent.slots), u, "leaves to a slot outside the cache");
    case RowDestination::kHostRow:
      return require(within(target, extent.host_rows), u, "leaves to a row outside the table");
    case RowDestination::kValue:
    case RowDestination::kGradient: {
      const std::int64_t stride = leave == RowDestination::kValue ? memory.stride : memory.record_stride();
      return require(target >= 0 && target % 4 == 0 && target + records * stride <= extent.staging_floats, u,
                     "leaves to a place outside the staging");
    }
  }
  require(false, u, "leaves in no known way");
}

}  // namespace

void check_reads(const RowMemory&, const MemoryExtent& extent, const RowReads& reads) {
  for (std::int64_t u = 0; u < reads.count; ++u) {
    if (!reads.wants(u)) continue;  // it is in its record already, or comes by another call
    if (reads.source[u] == kFromHost || reads.source[u] == kFromHostLate)
      require(within(reads.rows[u], extent.host_rows), u, "is read from outside the table");
    else
      require(within(reads.source[u], extent.slots), u, "is read from a slot outside the cache");
  }
}

void check_writes(const RowMemory& memory, const MemoryExtent& extent, const RowWrites& writes,
                  const StepGradients& gradients) {
  for (std::int64_t u = 0; u < writes.count; ++u) {
    std::int64_t records = 1;
    if (writes.leave[u] == RowDestination::kGradient) {
      records = 0;
      for (int e = 0; e < gradients.entries; ++e)
        records += gradients.entry[e].offset[u + 1] - gradients.entry[e].offset[u];
    }
    check_target(memory, extent, writes.leave[u], writes.target[u], records, u);
  }
}

void check_row_write_backs(const MemoryExtent& extent, const RowWriteBacks& write_backs) {
  for (std::int64_t u = 0; u < write_backs.count; ++u) {
    if (write_backs.leave[u] != write_backs.wanted && !write_backs.evictions.has(u)) continue;
    const RowWriteBacks::Way way = write_backs.of(u);
    require(within(way.row, extent.host_rows), u, "is written back to a row outside the table");
    require(within(way.slot, extent.slots), u, "is written back from a slot outside the cache");
  }
}

void check_evictions(const MemoryExtent& extent, const RowEvictions& evictions, const std::int64_t* target,
                     std::int64_t count) {
  for (std::int64_t u = 0; u < count; ++u) {
    if (!evictions.has(u)) continue;
    require(within(target[u], extent.slots), u, "evicts what lies outside the cache");
    require(within(evictions.slot(u), extent.slots), u, "puts a row aside outside the cache");
  }
}

void check_write_backs(const RowMemory& memory, const MemoryExtent& extent, const WriteBack* write_backs,
                       std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    require(within(write_backs[i].slot, extent.slots), i, "is written back from a slot outside the cache");
    require(write_backs[i].leave == RowDestination::kValue || write_backs[i].leave == RowDestination::kHostRow, i,
            "is written back in no known way");
    check_target(memory, extent, write_backs[i].leave, write_backs[i].target, 1, i);
  }
}

void check_occurrences(const std::int32_t* offset, std::int64_t rows, const std::int32_t* order,
                       std::int64_t occurrences, std::int64_t values) {
  require(offset[0] == 0, 0, "does not start at the first occurrence");
  for (std::int64_t u = 0; u < rows; ++u)
    require(offset[u] <= offset[u + 1] && offset[u + 1] <= occurrences, u, "has occurrences that are not there");
  if (order)
    for (std::int64_t i = 0; i < occurrences; ++i)
      require(within(order[i], values), i, "has an occurrence without a gradient");
}

}  // namespace frugal
