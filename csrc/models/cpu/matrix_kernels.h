// Products with matrices of a table, and their row-wise Adagrad, on the CPU: the reference for cuda/matrix_kernels.h.
#pragma once

#include "models/matrix_rows.h"

namespace frugal::cpu {

// y (edges, vectors, height) = M x for x (edges, vectors, width), with M the matrix of an edge; transposed: y (edges,
// vectors, width) = M^T x for x (edges, vectors, height).
void matrix_products(const MatrixRows& m, bool transposed, const float* x, std::int64_t vectors, float* y);

// squares[(e * tiles + t) * edges + i] (count, matrix_tiles, edges): of occurrence i, the sum of squares of its
// gradient in entry e over tile t of its matrix. amounts, if not null, (matrix_tiles, edges): of each tile numbers that
// add up to the sum of |x|^norm over it for all edges.
void matrix_squares(const MatrixRows& m, const MatrixGradients* entries, int count, const MatrixPenalty& penalty,
                    float* squares, float* amounts);

// Row-wise Adagrad (table/row_adagrad.h) for entries one after the other. squares: as matrix_squares has it.
// deviations (count, rows): room for what divides.
void update_matrices(const MatrixRows& m, const MatrixGradients* entries, int count, const float* squares,
                     const MatrixPenalty& penalty, float learning_rate, float* deviations);

}  // namespace frugal::cpu
