#include "models/cpu/matrix_kernels.h"

#include <algorithm>

#include "base/parallel/thread_pool.h"
#include "table/row_adagrad.h"

namespace frugal::cpu {
namespace {

// Calls body(u, tile's number, tile, end of its columns) for all tiles of rows that have edges.
template <typename Body>
void for_tiles(const MatrixRows& m, const Body& body) {
  const std::int64_t tiles = matrix_tiles(m.height, m.width);
  default_pool()->parallel_for(m.count * tiles, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t u = i / tiles;
      if (m.offset[u] == m.offset[u + 1]) continue;
      const MatrixTile tile(m, i % tiles);
      body(u, i % tiles, tile, std::min(tile.column + strips_of_tile(m.width), m.width));
    }
  });
}

// Adds `times` times the gradient by the strip of an edge's matrix.
void add_gradient(const MatrixRows& m, const MatrixGradients& g, std::int32_t edge, const MatrixTile& tile,
                  std::int64_t column, float times, StripGradient& sum) {
  for (std::int64_t k = std::int64_t{edge} * g.terms, end = k + g.terms; k < end; ++k) {
    float left[kStrip] = {};
    std::copy_n(g.left + k * m.height + tile.row, tile.length, left);
    sum.add_term(left, times * g.right[k * m.width + column]);
  }
  if (g.dense == nullptr) return;
  const float* const dense = g.dense + edge * m.elements() + tile.row * m.width + column;
  sum.add_dense(dense, static_cast<std::int32_t>(m.width), tile.length, times);
}

}  // namespace

void matrix_products(const MatrixRows& m, bool transposed, const float* x, std::int64_t vectors, float* y) {
  const std::int64_t in = transposed ? m.height : m.width, out = transposed ? m.width : m.height;
  default_pool()->parallel_for(m.edges, 1, [&](std::int64_t begin, std::int64_t end) {
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

void matrix_squares(const MatrixRows& m, const MatrixGradients* entries, int count, const MatrixPenalty& penalty,
                    float* squares, float* amounts) {
  const std::int64_t tiles = matrix_tiles(m.height, m.width);
  std::fill_n(squares, count * tiles * m.edges, 0.0f);
  if (amounts != nullptr) std::fill_n(amounts, tiles * m.edges, 0.0f);
  for_tiles(m, [&](std::int64_t u, std::int64_t number, const MatrixTile& tile, std::int64_t end) {
    for (std::int64_t column = tile.column; column < end; ++column) {
      MatrixStrip strip;
      strip.load(m.matrix(u) + tile.row * m.width + column, static_cast<std::int32_t>(m.width), tile.length);
      const StripGradient start = strip.gradient(penalty);
      for (std::int64_t o = m.offset[u]; o < m.offset[u + 1]; ++o) {
        for (int e = 0; e < count; ++e) {
          StripGradient gradient = start;
          add_gradient(m, entries[e], m.occurrence[o], tile, column, 1.0f, gradient);
          squares[(e * tiles + number) * m.edges + o] += gradient.square();
        }
        if (amounts != nullptr) amounts[number * m.edges + o] += strip.amount(penalty);
      }
    }
  });
}

void update_matrices(const MatrixRows& m, const MatrixGradients* entries, int count, const float* squares,
                     const MatrixPenalty& penalty, float learning_rate, float* deviations) {
  const std::int64_t tiles = matrix_tiles(m.height, m.width);
  for (std::int64_t u = 0; u < m.count; ++u) {
    if (m.offset[u] == m.offset[u + 1]) continue;
    float* state = m.matrix(u) + m.elements();
    for (int e = 0; e < count; ++e) {
      for (std::int64_t o = m.offset[u]; o < m.offset[u + 1]; ++o) {
        float sum = 0.0f;
        for (std::int64_t t = 0; t < tiles; ++t) sum += squares[(e * tiles + t) * m.edges + o];
        *state += sum / static_cast<float>(m.elements());
      }
      deviations[e * m.count + u] = RowAdagrad::deviation(*state);
    }
  }
  for_tiles(m, [&](std::int64_t u, std::int64_t, const MatrixTile& tile, std::int64_t end) {
    for (std::int64_t column = tile.column; column < end; ++column) {
      float* const at = m.matrix(u) + tile.row * m.width + column;
      MatrixStrip strip;
      StripGradient step;
      strip.load(at, static_cast<std::int32_t>(m.width), tile.length);
      float times_of_all = 0.0f;
      for (int e = 0; e < count; ++e) {
        const float times = -learning_rate / deviations[e * m.count + u];
        times_of_all += times * static_cast<float>(m.offset[u + 1] - m.offset[u]);
        for (std::int64_t o = m.offset[u]; o < m.offset[u + 1]; ++o)
          add_gradient(m, entries[e], m.occurrence[o], tile, column, times, step);
      }
      strip.move(step, penalty, times_of_all);
      strip.store(at, static_cast<std::int32_t>(m.width), tile.length);
    }
  });
}

}  // namespace frugal::cpu
