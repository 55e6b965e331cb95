#include "kernels/cpu/matrix_kernels.h"

#include <algorithm>

#include "optim/row_adagrad.h"
#include "parallel/thread_pool.h"

namespace frugal::cpu {
namespace {

// Calls body(u, tile, first row, first column, end of columns) for all tiles of rows that have edges.
template <typename Body>
void for_tiles(const MatrixRows& m, const Body& body) {
  const std::int64_t tiles = matrix_tiles(m.height, m.width), across = tiles_across(m.width);
  default_pool().parallel_for(m.count * tiles, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t u = i / tiles, tile = i % tiles, column = tile % across * kStrips;
      if (m.offset[u] == m.offset[u + 1]) continue;
      body(u, tile, tile / across * kStrip, column, std::min(column + kStrips, m.width));
    }
  });
}

}  // namespace

void matrix_products(const MatrixRows& m, bool transposed, const float* x, std::int64_t vectors, float* y) {
  const std::int64_t in = transposed ? m.height : m.width, out = transposed ? m.width : m.height;
  default_pool().parallel_for(m.edges, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t k = begin * vectors; k < end * vectors; ++k) {
      const float *matrix = m.matrix(m.slot[k / vectors]), *from = x + k * in;
      float* to = y + k * out;
      std::fill_n(to, out, 0.0f);
      for (std::int64_t i = 0; i < m.height; ++i)
        for (std::int64_t j = 0; j < m.width; ++j)
          transposed ? to[j] += matrix[i * m.width + j] * from[i] : to[i] += matrix[i * m.width + j] * from[j];
    }
  });
}

void matrix_squares(const MatrixRows& m, const MatrixGradients& gradients, const MatrixPenalty& penalty, float* squares,
                    float* amounts) {
  if (amounts != nullptr) std::fill_n(amounts, matrix_tiles(m.height, m.width) * m.count, 0.0f);
  for_tiles(m, [&](std::int64_t u, std::int64_t tile, std::int64_t row, std::int64_t column, std::int64_t end) {
    std::fill(squares + tile * m.edges + m.offset[u], squares + tile * m.edges + m.offset[u + 1], 0.0f);
    for (; column < end; ++column) {
      const MatrixStrip strip(m, u, row, column, penalty);
      for (std::int64_t o = m.offset[u]; o < m.offset[u + 1]; ++o)
        squares[tile * m.edges + o] += strip.square(gradients, m.occurrence[o]);
      if (amounts != nullptr) amounts[tile * m.count + u] += strip.amount(penalty);
    }
  });
}

void update_matrices(const MatrixRows& m, const MatrixGradients* entries, int count, const float* means,
                     const MatrixPenalty& penalty, float learning_rate, float* deviations) {
  for (std::int64_t u = 0; u < m.count; ++u) {
    float* state = m.matrix(u) + m.elements();
    for (int e = 0; e < count; ++e) {
      for (std::int64_t o = m.offset[u]; o < m.offset[u + 1]; ++o) *state += means[e * m.edges + o];
      deviations[e * m.count + u] = RowAdagrad::deviation(*state);
    }
  }
  for_tiles(m, [&](std::int64_t u, std::int64_t, std::int64_t row, std::int64_t column, std::int64_t end) {
    for (; column < end; ++column) {
      MatrixStrip strip(m, u, row, column, penalty);
      for (int e = 0; e < count; ++e)
        for (std::int64_t o = m.offset[u]; o < m.offset[u + 1]; ++o)
          strip.add(entries[e], m.occurrence[o], -learning_rate / deviations[e * m.count + u]);
      strip.store();
    }
  });
}

}  // namespace frugal::cpu
