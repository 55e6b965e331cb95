// The row kernels of a step on the CPU: the reference for cuda/plan_kernels.h, with a second host buffer as the
// device's cache.
//
// All of them split rows over default_pool(); results do not depend on the number of threads. They check nothing: a
// plan comes from the engine, and bindings check what comes from elsewhere (check_plan).
#pragma once

#include <cstdint>

#include "rows/row_program.h"

namespace frugal::cpu {

// records[u] = record of row u in floats, from its cache slot or its host row, for the rows that are read. records:
// (count, memory.record_stride()).
void gather(const RowMemory& memory, const RowReads& reads, float* records);

// Every row leaves the step as its plan says: updated by row-wise Adagrad into a cache slot, a value record or its host
// row, or as its gradients. records: what gather gave; they are only read. rounding: of rows in half precision.
void update(const RowMemory& memory, const RowWrites& writes, const float* records, const StepGradients& gradients,
            float learning_rate, const RowRounding& rounding = {});

// out (count, expansion.dim): each id's row of the step.
void expand(const RowExpansion& expansion, float* out);

// Copies the records of rows that leave for the host from cache slots to their host rows.
void write_back_rows(const RowMemory& memory, const RowWriteBacks& write_backs);

// Copies the records of `count` rows that a step evicts from their slots `target` to the write-back buffer.
void stage_evicted(const RowMemory& memory, const RowEvictions& evictions, const std::int64_t* target,
                   std::int64_t count);

// Copies the records of evicted rows from their slots to staging or to their host rows.
void write_back_evicted(const RowMemory& memory, const WriteBack* write_backs, std::int64_t count);

// squares[i] = mean square of row i of values (rows, dim), `stride` floats apart.
void mean_squares(const float* values, std::int64_t stride, std::int64_t rows, std::int64_t dim, float* squares);

}  // namespace frugal::cpu
