// A softmax over all entities on the CPU. See full_softmax/tiles.h. No result depends on the number of threads.
#pragma once

#include <cstdint>

#include "full_softmax/tiles.h"

namespace frugal::cpu {

// Adds a tile to the sums, `part` columns after the other, a multiple of 16 or all. Columns up to the next multiple of
// 16 are written to: the stride leaves room.
void add_tile(const ScoreTile& tile, const SoftmaxTargets& targets, const SoftmaxSums& sums, std::int64_t part);
// Replaces a tile's scores by d loss / d score. log_sum: (B,). scale: (B,) or null, see SlopeForm.
void tile_slopes(const ScoreTile& tile, const SoftmaxTargets& targets, const float* log_sum, const float* scale,
                 const SlopeForm& form = {});

// Rows first .. first + count of a table are updated from their gradients (count, dim), `stride` floats apart; but the
// gradient of row j with slot[j] >= 0 goes to row slot[j] of aside (.., dim) instead, for there is more to come.
void update_tile(const TableRows& table, std::int64_t first, std::int64_t count, const float* gradients,
                 std::int64_t stride, const std::int32_t* slot, float* aside, const UpdateRule& rule);
// Rows ids[0 .. *used) are updated from gradients (.., dim).
void update_rows(const TableRows& table, const std::int64_t* ids, const std::int32_t* used, const float* gradients,
                 const UpdateRule& rule);

// values (rows, dim), `stride` floats apart, in place.
void drop(const Dropout& dropout, std::int64_t rows, std::int64_t dim, std::int64_t stride, float* values);

}  // namespace frugal::cpu
