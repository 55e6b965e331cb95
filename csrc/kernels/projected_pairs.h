// Queries against negatives that the matrices of their edges project (TransR), and the way back.
//
// Edges of a chunk that share a matrix share what it makes of the chunk's negatives. They are found as they lie in the
// order of rows: a run is neighbours there of one row and one chunk; each row's edges ascend, so that a run is all of
// them.
#pragma once

#include "kernels/matrix_rows.h"
#include "kernels/pair_terms.h"

namespace frugal {

// An edge's query is a row of (edges, width), and so is its gradient; candidates are (chunks, negatives, height).
struct ProjectedPairs {
  MatrixRows m;
  std::int64_t chunk_size, negatives;  // of a chunk

  static constexpr std::int64_t kStripe = 16;  // occurrences whose runs' gradients by negatives are added up together

  FRUGAL_MATRIX_CODE std::int64_t chunks() const { return m.edges / chunk_size; }
  FRUGAL_MATRIX_CODE std::int64_t stripes() const { return (m.edges + kStripe - 1) / kStripe; }
  FRUGAL_MATRIX_CODE std::int32_t chunk(std::int64_t o) const {
    return m.occurrence[o] / static_cast<std::int32_t>(chunk_size);
  }
  // Whether occurrence o begins a run.
  FRUGAL_MATRIX_CODE bool begins(std::int64_t o) const {
    return o == 0 || chunk(o) != chunk(o - 1) || m.slot[m.occurrence[o]] != m.slot[m.occurrence[o - 1]];
  }
  FRUGAL_MATRIX_CODE std::int64_t begin_of_run(std::int64_t o) const {
    while (!begins(o)) --o;
    return o;
  }
  FRUGAL_MATRIX_CODE std::int64_t end_of_run(std::int64_t o) const {
    for (++o; o < m.edges && !begins(o);) ++o;
    return o;
  }
  // Where an edge's gradient by projected negative n begins, in (chunks, negatives, chunk_size, width).
  FRUGAL_MATRIX_CODE std::int64_t place(std::int32_t edge, std::int64_t n) const {
    const std::int64_t chunk = edge / static_cast<std::int32_t>(chunk_size);
    return ((chunk * negatives + n) * chunk_size + edge - chunk * chunk_size) * m.width;
  }
};

}  // namespace frugal
