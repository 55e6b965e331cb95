// Counts, for many queries, how many rows of a table score better than given thresholds: ranking against all entities.
//
// Keys are computed in float32 by blocks that stay in cache, and compared there; no score is written to memory. Since
// float32 sums are inexact, each threshold is an interval: a key above `high` is better for certain, a key below `low`
// is worse for certain, and the few pairs between are handed back, to be decided exactly (pair_keys.h). So the final
// ranks depend neither on the blocking nor on the instruction set nor on the number of threads.
#pragma once

#include <cstdint>
#include <vector>

#include "ranking/operation.h"
#include "ranking/rows_view.h"

namespace frugal {

// CSR lists: the items of query q are items[pointers[q]] .. items[pointers[q + 1] - 1]. Not owned.
struct ListsView {
  const std::int64_t* pointers;
  const std::int64_t* items;
};

struct RankingTask {
  Operation operation;
  RowsView queries;
  RowsView table;
  const float* bias;              // added to the key of each row, or null; for kL2 it is -|row|^2, and queries are 2a
  ListsView excluded;             // per query: rows that never count, ascending
  const std::int64_t* positives;  // query q has thresholds positives[q] .. positives[q + 1] - 1
  const float* low;               // per threshold; finite
  const float* high;
  // Candidates shared by `group` consecutive queries each (candidate_count ids per group), or null: all rows.
  const std::int64_t* candidates;
  std::int64_t candidate_count;
  std::int64_t group;
};

struct UncertainPair {
  std::int64_t threshold;
  std::int64_t row;
};

// better[i]: number of candidates certainly above threshold i. Returns the undecided pairs, in ascending order.
// Runs on the default pool.
std::vector<UncertainPair> count_better(const RankingTask& task, std::int64_t* better);

}  // namespace frugal
