// Queries against negatives that the matrices of their edges project (TransR), and the way back.
//
// Edges of a chunk that share a matrix share what it makes of the chunk's negatives. They are found as they lie in the
// order of rows: a run is neighbours there of one row and one chunk; each row's edges ascend, so that a run is all of
// them.
#pragma once

#include "models/matrix_rows.h"

namespace frugal {

// An edge's query is a row of (edges, width), and so is its gradient; candidates are (chunks, negatives, height).
struct ProjectedPairs {
  MatrixRows m;
  std::int64_t chunk_size, negatives;  // of a chunk

  // A chunk's runs are shared out to so many stripes; gradients by negatives are added up within one.
  static constexpr std::int64_t kStripes = 24;

  FRUGAL_MATRIX_CODE std::int64_t chunks() const { return m.edges / chunk_size; }
  FRUGAL_MATRIX_CODE std::int32_t chunk(std::int64_t o) const {
    return m.occurrence[o] / static_cast<std::int32_t>(chunk_size);
  }
  // Whether occurrence o begins a run.
  FRUGAL_MATRIX_CODE bool begins(std::int64_t o) const {
    return o == 0 || chunk(o) != chunk(o - 1) || m.slot[m.occurrence[o]] != m.slot[m.occurrence[o - 1]];
  }
  FRUGAL_MATRIX_CODE std::int64_t end_of_run(std::int64_t o) const {
    for (++o; o < m.edges && !begins(o);) ++o;
    return o;
  }
  // Where the run of a chunk and row u of the step begins, if it has one, and that of the chunk before ends.
  FRUGAL_MATRIX_CODE std::int64_t begin_of_run(std::int64_t chunk, std::int64_t u) const {
    const std::int64_t first_edge = chunk * chunk_size;
    std::int64_t begin = m.offset[u], end = m.offset[u + 1];
    while (begin < end) {
      const std::int64_t middle = begin + (end - begin) / 2;
      if (m.occurrence[middle] < first_edge)
        begin = middle + 1;
      else
        end = middle;
    }
    return begin;
  }
  FRUGAL_MATRIX_CODE bool has_run(std::int64_t chunk, std::int64_t u) const {
    const std::int64_t begin = begin_of_run(chunk, u);
    return begin < m.offset[u + 1] && m.occurrence[begin] < (chunk + 1) * chunk_size;
  }
  // d loss / d what an edge's matrix made of a negative, number by number; slope: d loss / d score, where a score is a
  // constant less the distance. By the query it is the same with the other sign.
  FRUGAL_MATRIX_CODE static float by_projected(float query, float projected, float slope) {
    return query > projected ? slope : query < projected ? -slope : 0.0f;
  }
};

}  // namespace frugal
