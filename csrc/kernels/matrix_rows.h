// Rows that are matrices (RESCAL's relations, TransR's projections), worked on where their table lies.
//
// No step makes a matrix for each of its edges. An edge's vectors meet the matrix of its row; the gradient by an edge
// is kept as factors, and a row moves once, by all its edges in order. An element's arithmetic is written here once for
// both machines; only sums over elements (products, mean squares) have another order on each, the same in every run.
#pragma once

#include <cmath>
#include <cstdint>

#ifdef __CUDACC__
#define FRUGAL_MATRIX_CODE __host__ __device__ inline
#define FRUGAL_MATRIX_UNROLL _Pragma("unroll")
#else
#define FRUGAL_MATRIX_CODE inline
#define FRUGAL_MATRIX_UNROLL
#endif

namespace frugal {

// The rows of a step and its edges. Row u of the step has edges occurrence[offset[u]] .. occurrence[offset[u + 1] - 1].
struct MatrixRows {
  float* table;                    // records: a matrix (height, width), its optimizer state, padding
  std::int64_t stride;             // floats from one record to the next
  const std::int64_t* rows;        // (count,) of the table; one without edges is left alone
  std::int64_t count;              // rows of the step, padding included
  std::int64_t height, width;
  const std::int32_t* offset;      // (count + 1,)
  const std::int32_t* occurrence;  // (edges,)
  const std::int32_t* slot;        // (edges,) the row of the step that an edge has
  std::int64_t edges;

  FRUGAL_MATRIX_CODE float* matrix(std::int64_t u) const { return table + rows[u] * stride; }
  FRUGAL_MATRIX_CODE std::int64_t elements() const { return height * width; }
};

// The gradients by the edges of one entry: the sum over k < terms of left_k (height,) times right_k (width,), and where
// there is `dense` that matrix. Matrices of `group` edges lie side by side: (edges / group, height, group, width).
struct MatrixGradients {
  const float* left;   // (edges, terms, height)
  const float* right;  // (edges, terms, width)
  std::int32_t terms;
  const float* dense = nullptr;
  std::int32_t group = 1;  // like the number of an edge: division by 64 bits is slow on a device
};

// factor * |x|^(norm - 1) sign(x) is added to every gradient; with factor 0 nothing is.
struct MatrixPenalty {
  float norm, factor;

  FRUGAL_MATRIX_CODE float rising(float x) const {
    if (norm == 3.0f) return std::fabs(x) * x;  // DGL-KE's default
    if (norm == 2.0f) return x;
    if (x == 0.0f) return 0.0f;
    return std::copysign(norm == 1.0f ? 1.0f : std::pow(std::fabs(x), norm - 1.0f), x);
  }
};

// A tile of a matrix is kStrips strips side by side; a strip is kStrip elements of a column, and one thread's work.
inline constexpr int kStrip = 16, kStrips = 128;

FRUGAL_MATRIX_CODE std::int64_t tiles_across(std::int64_t width) { return (width + kStrips - 1) / kStrips; }
FRUGAL_MATRIX_CODE std::int64_t matrix_tiles(std::int64_t height, std::int64_t width) {
  return (height + kStrip - 1) / kStrip * tiles_across(width);
}

// The strip of row u that begins at (first, column).
class MatrixStrip {
 public:
  FRUGAL_MATRIX_CODE MatrixStrip(const MatrixRows& m, std::int64_t u, std::int64_t first, std::int64_t column,
                                 const MatrixPenalty& penalty)
      : m_(m),
        at_(m.matrix(u) + first * m.width + column),
        first_(first),
        column_(column),
        length_(m.height - first < kStrip ? static_cast<int>(m.height - first) : kStrip) {
    FRUGAL_MATRIX_UNROLL
    for (int r = 0; r < kStrip; ++r) {
      value_[r] = r < length_ ? at_[r * m.width] : 0.0f;
      penalty_[r] = penalty.factor == 0.0f ? 0.0f : penalty.factor * penalty.rising(value_[r]);
    }
  }

  // The sum of squares of the gradient by an edge.
  FRUGAL_MATRIX_CODE float square(const MatrixGradients& g, std::int32_t edge) const {
    float gradient[kStrip], sum = 0.0f;
    differentiate(g, edge, gradient);
    FRUGAL_MATRIX_UNROLL
    for (int r = 0; r < kStrip; ++r) sum = std::fma(gradient[r], gradient[r], sum);
    return sum;
  }

  // The sum of |x|^norm.
  FRUGAL_MATRIX_CODE float amount(const MatrixPenalty& penalty) const {
    float sum = 0.0f;
    FRUGAL_MATRIX_UNROLL
    for (int r = 0; r < kStrip; ++r) sum += penalty.rising(value_[r]) * value_[r];
    return sum;
  }

  // Adds `times` times the gradient by an edge.
  FRUGAL_MATRIX_CODE void add(const MatrixGradients& g, std::int32_t edge, float times) {
    float gradient[kStrip];
    differentiate(g, edge, gradient);
    FRUGAL_MATRIX_UNROLL
    for (int r = 0; r < kStrip; ++r) value_[r] = std::fma(times, gradient[r], value_[r]);
  }

  FRUGAL_MATRIX_CODE void store() const {
    FRUGAL_MATRIX_UNROLL
    for (int r = 0; r < kStrip; ++r)
      if (r < length_) at_[r * m_.width] = value_[r];
  }

 private:
  // Beyond the matrix the gradient is 0.
  FRUGAL_MATRIX_CODE void differentiate(const MatrixGradients& g, std::int32_t edge, float (&gradient)[kStrip]) const {
    FRUGAL_MATRIX_UNROLL
    for (int r = 0; r < kStrip; ++r) gradient[r] = penalty_[r];
    for (std::int64_t k = std::int64_t{edge} * g.terms, end = k + g.terms; k < end; ++k) {
      const float* left = g.left + k * m_.height + first_;
      const float right = g.right[k * m_.width + column_];
      FRUGAL_MATRIX_UNROLL
      for (int r = 0; r < kStrip; ++r)
        if (r < length_) gradient[r] = std::fma(left[r], right, gradient[r]);
    }
    if (g.dense == nullptr) return;
    const std::int32_t group = edge / g.group;
    const std::int64_t down = g.group * m_.width;
    const float* dense = g.dense + (group * m_.height + first_) * down + (edge - group * g.group) * m_.width + column_;
    FRUGAL_MATRIX_UNROLL
    for (int r = 0; r < kStrip; ++r)
      if (r < length_) gradient[r] += dense[r * down];
  }

  const MatrixRows& m_;
  float* const at_;
  const std::int64_t first_, column_;
  const int length_;
  float value_[kStrip], penalty_[kStrip];
};

}  // namespace frugal
