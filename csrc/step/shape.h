// Sizes that follow from a batch, and how work is cut.
#pragma once

#include <algorithm>
#include <cstdint>
#include <stdexcept>

#include "base/linalg/buffer.h"
#include "sampler/batch.h"

namespace frugal {

inline constexpr std::int64_t kVector = 16;  // floats of a Vec
inline constexpr std::int64_t kTile = 12;    // a multiple of every tile's height
inline constexpr std::int64_t kBlock = 48;   // rows of a block of queries or negatives, at most
inline constexpr std::int64_t kEdges = 32;   // edges of a task that handles edges one by one
inline constexpr std::int64_t kLargeRow = 4096;  // floats of a row that is worth a task of its own

inline constexpr std::int64_t pieces(std::int64_t count, std::int64_t size) { return (count + size - 1) / size; }

// Rows of a block where `rows` are shared out: several blocks per thread, so that none waits long for another, but
// whole tiles. No result depends on it.
inline constexpr std::int64_t block_rows(std::int64_t rows, int threads) {
  return std::clamp(pieces(pieces(rows, 3 * threads), kTile) * kTile, kTile, kBlock);
}

// Numbers that follow from a batch's sizes.
struct BatchShape {
  std::int64_t positives, chunks, chunk_size, negatives;
  std::int64_t own;      // columns of the chunk's own side: chunk_size or 0
  std::int64_t columns;  // own + negatives
  std::int64_t vectors;  // columns in vectors

  BatchShape(const Batch& batch, bool degree_negatives)
      : BatchShape(batch.positives(), batch.chunk_size, batch.negatives_per_chunk, degree_negatives) {}

  // negatives: of a chunk. Throws std::invalid_argument unless there are whole chunks of positives, and negatives.
  BatchShape(std::int64_t positives, std::int64_t chunk_size, std::int64_t negatives, bool degree_negatives)
      : positives(positives),
        chunks(chunk_size > 0 ? positives / chunk_size : 0),
        chunk_size(chunk_size),
        negatives(negatives),
        own(degree_negatives ? chunk_size : 0),
        columns(own + negatives),
        vectors(pieces(columns, kVector)) {
    if (positives == 0 || columns == 0 || chunks * chunk_size != positives)
      throw std::invalid_argument("a batch needs whole chunks of positives, and negatives");
  }

  // Slot among the batch's entities of a column of a chunk.
  std::int32_t slot(const Batch& batch, std::int64_t chunk, std::int64_t column) const {
    if (column >= own) return batch.negative_slot[chunk * negatives + column - own];
    return (batch.corrupt_head ? batch.head_slot : batch.tail_slot)[chunk * chunk_size + column];
  }
};

// Asks for a row that is needed soon: rows lie scattered in memory, and the processor cannot guess where the next one
// is.
inline void prefetch_row(const float* row, std::int64_t dim) {
  for (std::int64_t i = 0; i < dim; i += kVector) __builtin_prefetch(row + i);
}

// sum may be x or y.
inline void add_rows(const float* x, const float* y, std::int64_t n, float* sum) {
  for (std::int64_t i = 0; i < n; ++i) sum[i] = x[i] + y[i];
}

inline void add_to(float* __restrict sum, const float* __restrict x, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) sum[i] += x[i];
}

}  // namespace frugal
