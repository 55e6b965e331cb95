#include "comm/cpu/owner_transfer.h"

#include <algorithm>

#include "base/parallel/thread_pool.h"
#include "table/half_rows.h"

namespace frugal::cpu {
namespace {

// body(i) for those of `count` rows that this rank owns; row_of(i): their ids.
template <typename RowOf, typename Body>
void for_owned(const OwnerTransferRows& rows, std::int64_t count, RowOf row_of, Body body) {
  default_pool()->parallel_for(count, kRowsPerTask, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      if (rows.owns(row_of(i))) body(i);
  });
}

void bring_to_host(const OwnerTransferRows& rows, std::int64_t row, std::int64_t slot) {
  for (int rank = 0; rank < rows.ranks(); ++rank)
    std::copy_n(rows.slot(slot, rank), rows.part.record_floats(), rows.host_part(row, rank));
}

}  // namespace

void prefetch(const OwnerTransferRows& rows, const RowReads& reads, const OwnerTransferRecords& records,
              std::uint64_t number) {
  const RowMemory& part = rows.part;
  const RowLayout layout = layout_of(part);
  for_owned(
      rows, reads.count, [&](std::int64_t u) { return reads.rows[u]; },
      [&](std::int64_t u) {
        if (reads.source[u] != kFromHost) return;
        for (int rank = 0; rank < rows.ranks(); ++rank) {
          const float* const from = rows.host_part(reads.rows[u], rank);
          float* const to = records.of[rank] + u * part.record_stride();
          if (part.is_half())
            expand_record(layout, from, to);
          else
            std::copy_n(from, part.record_floats(), to);
        }
      });
  tell(rows.prefetched, number);
  if (rows.rules.waits_for_prefetches) hear(rows.prefetched, number);
}

void write_back(const OwnerTransferRows& rows, const RowWriteBacks& write_backs, std::uint64_t number) {
  tell(rows.computed, number);
  if (rows.rules.hears_values && hear(rows.computed, number)) return;
  for_owned(
      rows, write_backs.count, [&](std::int64_t u) { return write_backs.rows[u]; },
      [&](std::int64_t u) {
        if (write_backs.leave[u] == write_backs.wanted) bring_to_host(rows, write_backs.rows[u], write_backs.target[u]);
      });
}

void write_back_evicted(const OwnerTransferRows& rows, const WriteBack* write_backs, std::int64_t count,
                        std::uint64_t number) {
  if (rows.rules.hears_values && hear(rows.computed, number)) return;
  for_owned(
      rows, count, [&](std::int64_t i) { return write_backs[i].row; },
      [&](std::int64_t i) { bring_to_host(rows, write_backs[i].row, write_backs[i].slot); });
}

}  // namespace frugal::cpu
