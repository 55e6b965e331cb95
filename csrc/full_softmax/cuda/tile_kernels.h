// A softmax over all entities on a CUDA device; the reference is cpu/tile_kernels.h, whose products are the caller's.
// All pointers are to device memory; calls only enqueue. Sums have a fixed order, but not the CPU's. All throw
// DeviceError if a launch fails.
#pragma once

#include <cstdint>

#include "full_softmax/tiles.h"

namespace frugal::cuda {

void add_tile(const ScoreTile& tile, const SoftmaxTargets& targets, const SoftmaxSums& sums, std::uintptr_t stream);
void tile_slopes(const ScoreTile& tile, const SoftmaxTargets& targets, const float* log_sum, const float* scale,
                 const SlopeForm& form, std::uintptr_t stream);
void update_tile(const TableRows& table, std::int64_t first, std::int64_t count, const float* gradients,
                 std::int64_t stride, const std::int32_t* slot, float* aside, const UpdateRule& rule,
                 std::uintptr_t stream);
// most: of the rows that there may be.
void update_rows(const TableRows& table, const std::int64_t* ids, const std::int32_t* used, std::int64_t most,
                 const float* gradients, const UpdateRule& rule, std::uintptr_t stream);
void drop(const Dropout& dropout, std::int64_t rows, std::int64_t dim, std::int64_t stride, float* values,
          std::uintptr_t stream);

}  // namespace frugal::cuda
