#include "rows/cpu/plan_kernels.h"

#include <algorithm>
#include <vector>

#include "base/parallel/thread_pool.h"
#include "rows/cpu/host_warp.h"
#include "table/half_rows.h"
#include "table/mean_square.h"

namespace frugal::cpu {
namespace {
constexpr std::int64_t kPrefetchDistance =
    4;  // rows; a random row's first lines are on their way while others are copied

void prefetch(const float* row) {
  __builtin_prefetch(row);
  __builtin_prefetch(row + 16);
}

// A row in half precision leaves: updated in floats, then rounded once.
void update_rounded(const RowMemory& memory, const RowWrites& writes, std::int64_t u, const float* record,
                    const StepGradients& gradients, float learning_rate, int power, const RowRounding& rounding) {
  static thread_local std::vector<float> wide;  // grows once
  wide.resize(static_cast<std::size_t>(memory.record_stride()));
  RowMemory in_floats{memory.dim, memory.record_stride(), wide.data()};
  update_row<HostWarp>(in_floats, RowDestination::kHostRow, 0, record, gradients, u, learning_rate, power);
  round_record(layout_of(memory), wide.data(), target_of(memory, writes.leave[u], writes.target[u]),
               rounding.of(u), rounding.by.columns);
}
}  // namespace

void gather(const RowMemory& memory, const RowReads& reads, float* records) {
  const std::int64_t floats = memory.record_floats();
  default_pool()->parallel_for(reads.count, kRowsPerTask, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t u = begin; u < end; ++u) {
      if (u + kPrefetchDistance < end) prefetch(source_of(memory, reads, u + kPrefetchDistance));
      if (!reads.wants(u)) continue;
      if (memory.is_half())
        expand_record(layout_of(memory), source_of(memory, reads, u), records + u * memory.record_stride());
      else
        std::copy_n(source_of(memory, reads, u), floats, records + u * memory.stride);
    }
  });
}

void update(const RowMemory& memory, const RowWrites& writes, const float* records, const StepGradients& gradients,
            float learning_rate, const RowRounding& rounding) {
  const int power = sum_level_power(memory.dim / kSumPartials);
  default_pool()->parallel_for(writes.count, kRowsPerTask, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t u = begin; u < end && !writes.pads(u); ++u) {
      const float* const record = records + u * memory.record_stride();
      if (memory.is_half() && writes.leave[u] != RowDestination::kGradient)
        update_rounded(memory, writes, u, record, gradients, learning_rate, power, rounding);
      else
        update_row<HostWarp>(memory, writes.leave[u], writes.target[u], record, gradients, u, learning_rate, power);
    }
  });
}

void expand(const RowExpansion& expansion, float* out) {
  default_pool()->parallel_for(expansion.count, kRowsPerTask, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int32_t u = expansion.inverse[i];
      if (u < expansion.rows)
        std::copy_n(expansion.records + u * expansion.stride, expansion.dim, out + i * expansion.dim);
      else
        std::fill_n(out + i * expansion.dim, expansion.dim, 0.0f);
    }
  });
}

void write_back_rows(const RowMemory& memory, const RowWriteBacks& write_backs) {
  default_pool()->parallel_for(write_backs.count, kRowsPerTask, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t u = begin; u < end; ++u) {
      const RowWriteBacks::Way way = write_backs.of(u);
      if (way.slot >= 0)
        std::copy_n(memory.cache + way.slot * memory.stride, memory.record_floats(),
                    memory.host_rows + way.row * memory.stride);
    }
  });
}

void stage_evicted(const RowMemory& memory, const RowEvictions& evictions, const std::int64_t* target,
                   std::int64_t count) {
  default_pool()->parallel_for(count, kRowsPerTask, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t u = begin; u < end; ++u)
      if (evictions.has(u))
        std::copy_n(memory.cache + target[u] * memory.stride, memory.record_floats(),
                    memory.cache + evictions.slot(u) * memory.stride);
  });
}

void write_back_evicted(const RowMemory& memory, const WriteBack* write_backs, std::int64_t count) {
  default_pool()->parallel_for(count, kRowsPerTask, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      std::copy_n(memory.cache + write_backs[i].slot * memory.stride, memory.record_floats(),
                  target_of(memory, write_backs[i].leave, write_backs[i].target));
  });
}

void mean_squares(const float* values, std::int64_t stride, std::int64_t rows, std::int64_t dim, float* squares) {
  for (std::int64_t i = 0; i < rows; ++i) squares[i] = mean_square(values + i * stride, dim);
}

}  // namespace frugal::cpu
