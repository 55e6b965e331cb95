// How the rows of a step leave it, on a CUDA device; the reference, to the bit, is cpu::update (cpu/plan_kernels.h).
#pragma once

#include <cstdint>
#include <span>

#include "rows/cuda/plan_kernels.h"

namespace frugal::cuda {

inline constexpr int kMaxTables = 3;  // entities, relations, projections

// Updates the rows of at most kMaxTables tables in one launch. Every entry has its mean squares. Throws
// std::invalid_argument if tables are in half precision of two kinds, DeviceError if the launch fails.
void update(std::span<const TableUpdate> tables, float learning_rate, const Launch& launch);

// squares[i] = mean square of row i of values (rows, dim), `stride` floats apart. Throws DeviceError likewise.
void mean_squares(const float* values, std::int64_t stride, std::int64_t rows, std::int64_t dim, float* squares,
                  const Launch& launch);

}  // namespace frugal::cuda
