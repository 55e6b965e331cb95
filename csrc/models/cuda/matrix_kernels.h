// Products with matrices of a table, and their row-wise Adagrad, on a CUDA device; the reference is
// cpu/matrix_kernels.h.
// No atomics: the same bits in every run.
#pragma once

#include "models/matrix_rows.h"
#include "rows/cuda/plan_kernels.h"

namespace frugal::cuda {

// All pointers must be valid on the device. All throw DeviceError if a launch fails. See cpu/matrix_kernels.h for what
// they do.
void matrix_products(const MatrixRows& m, bool transposed, const float* x, std::int64_t vectors, float* y,
                     const Launch& launch);
void matrix_squares(const MatrixRows& m, const MatrixGradients* entries, int count, const MatrixPenalty& penalty,
                    float* squares, float* amounts, const Launch& launch);
void update_matrices(const MatrixRows& m, const MatrixGradients* entries, int count, const float* squares,
                     const MatrixPenalty& penalty, float learning_rate, float* deviations, const Launch& launch);

}  // namespace frugal::cuda
