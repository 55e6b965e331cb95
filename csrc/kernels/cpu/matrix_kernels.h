// Products with matrices of a table, and their row-wise Adagrad, on the CPU: the twin of cuda/matrix_kernels.h.
#pragma once

#include "kernels/matrix_rows.h"

namespace frugal::cpu {

// y (edges, vectors, height) = M x for x (edges, vectors, width), with M the matrix of an edge; transposed: y (edges,
// vectors, width) = M^T x for x (edges, vectors, height).
void matrix_products(const MatrixRows& m, bool transposed, const float* x, std::int64_t vectors, float* y);

// squares[t * edges + i] (matrix_tiles, edges): of occurrence i, the sum of squares of its gradient over tile t of its
// matrix. amounts, if not null, [t * count + u] (matrix_tiles, count): of row u the sum of |x|^norm; 0 without edges.
void matrix_squares(const MatrixRows& m, const MatrixGradients& gradients, const MatrixPenalty& penalty, float* squares,
                    float* amounts);

// Row-wise Adagrad (optim/row_adagrad.h) for entries one after the other. means (entries, edges): of each occurrence
// the mean square of its gradient. deviations (entries, count): room for what divides.
void update_matrices(const MatrixRows& m, const MatrixGradients* entries, int count, const float* means,
                     const MatrixPenalty& penalty, float learning_rate, float* deviations);

}  // namespace frugal::cpu
