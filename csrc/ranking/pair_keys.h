// Exact keys of single (query, row) pairs: what decides where the float32 tiles of ranking.h cannot.
#pragma once

#include <cstdint>

#include "ranking/operation.h"
#include "ranking/rows_view.h"

namespace frugal {

// The key of two vectors in float64, summed in eight fixed lanes: the same bits on every machine and thread count.
double pair_key(Operation operation, const float* query, const float* row, std::int64_t dim);

// keys[i] = pair_key(queries[query_ids[i]], table[row_ids[i]]). Ids must be in range. Runs on the default pool.
void pair_keys(Operation operation, const RowsView& queries, const RowsView& table, const std::int64_t* query_ids,
               const std::int64_t* row_ids, std::int64_t count, double* keys);

}  // namespace frugal
