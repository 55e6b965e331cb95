// For each query, a few rows of the table among which the k best certainly are: top-k without storing all scores.
#pragma once

#include <cstdint>
#include <vector>

#include "ranking/operation.h"
#include "ranking/rows_view.h"

namespace frugal {

struct BestRowsTask {
  Operation operation;
  RowsView queries;
  RowsView table;
  const float* bias;       // as in RankingTask
  std::int64_t count;      // k >= 1
  const float* slack;      // per query: twice the largest absolute error of a float32 key
  float relative_slack;    // twice the error relative to the key, where that is how it is bounded
};

struct FoundRow {
  std::int64_t query;
  std::int64_t row;
};

// All rows whose float32 key is at least the k-th best one less the slack; by query, then row. On the default pool.
std::vector<FoundRow> best_rows(const BestRowsTask& task);

}  // namespace frugal
