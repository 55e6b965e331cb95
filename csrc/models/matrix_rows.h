// Rows that are matrices (RESCAL's relations, TransR's projections), worked on where their table lies.
//
// No step makes a matrix for each of its edges. An edge's vectors are multiplied by the matrix of its row; the gradient
// by an edge is kept as factors, and a row moves once, by the sum over its edges in order. An element's arithmetic is
// written here once for both machines; only sums over elements (products, mean squares) have another order on each, the
// same in every run.
#pragma once

#include <cmath>
#include <cstdint>

#ifdef __CUDACC__
#define FRUGAL_MATRIX_CODE __host__ __device__ inline
#define FRUGAL_MATRIX_UNROLL _Pragma("unroll")
#define FRUGAL_MATRIX_CALL __host__ __device__ __noinline__
#else
#define FRUGAL_MATRIX_CODE inline
#define FRUGAL_MATRIX_UNROLL
#define FRUGAL_MATRIX_CALL inline
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

inline constexpr int kMaxTerms = 2;

// The gradients by the edges of one entry: the sum over k < terms of left_k (height,) times right_k (width,), and where
// there is `dense` that matrix.
struct MatrixGradients {
  const float* left;   // (edges, terms, height)
  const float* right;  // (edges, terms, width)
  std::int32_t terms;  // at most kMaxTerms
  const float* dense = nullptr;  // (edges, height, width)
};

// factor * |x|^(norm - 1) sign(x) is added to every gradient; with factor 0 nothing is.
struct MatrixPenalty {
  float norm, factor;

  FRUGAL_MATRIX_CODE float rising(float x) const {
    return norm == 3.0f ? std::fabs(x) * x : rising_as(norm, x);  // 3 is DGL-KE's default
  }

 private:
  // Out of line on a GPU: a power is hundreds of instructions, which would stand in a strip 16 times.
  FRUGAL_MATRIX_CALL static float rising_as(float norm, float x) {
    if (norm == 2.0f) return x;
    if (x == 0.0f) return 0.0f;
    return std::copysign(norm == 1.0f ? 1.0f : std::pow(std::fabs(x), norm - 1.0f), x);
  }
};

// A strip is kStrip elements of a column, and one thread's work; a tile is strips side by side: whole warps of them, so
// many that tiles share a row out evenly.
inline constexpr int kStrip = 16, kMostStrips = 256;

FRUGAL_MATRIX_CODE std::int64_t tiles_across(std::int64_t width) { return (width + kMostStrips - 1) / kMostStrips; }
FRUGAL_MATRIX_CODE std::int64_t strips_of_tile(std::int64_t width) {
  constexpr std::int64_t kWarp = 32;
  const std::int64_t across = kWarp * tiles_across(width);
  return (width + across - 1) / across * kWarp;
}
FRUGAL_MATRIX_CODE std::int64_t matrix_tiles(std::int64_t height, std::int64_t width) {
  return (height + kStrip - 1) / kStrip * tiles_across(width);
}

// Where a tile begins, and how many elements its strips have.
struct MatrixTile {
  std::int64_t row, column;
  int length;

  FRUGAL_MATRIX_CODE MatrixTile(const MatrixRows& m, std::int64_t tile) {
    const auto number = static_cast<std::int32_t>(tile), across = static_cast<std::int32_t>(tiles_across(m.width));
    row = number / across * kStrip;
    column = number % across * strips_of_tile(m.width);
    length = m.height - row < kStrip ? static_cast<int>(m.height - row) : kStrip;
  }
};

// Elements of a gradient by a strip, or of a sum of them; 0 beyond the matrix.
struct StripGradient {
  float element[kStrip] = {};

  // left: kStrip elements, 0 beyond the matrix.
  FRUGAL_MATRIX_CODE void add_term(const float* left, float right) {
    FRUGAL_MATRIX_UNROLL
    for (int r = 0; r < kStrip; ++r) element[r] = std::fma(left[r], right, element[r]);
  }
  FRUGAL_MATRIX_CODE void add_dense(const float* from, std::int32_t down, int length, float times) {
    FRUGAL_MATRIX_UNROLL
    for (int r = 0; r < kStrip; ++r)
      if (r < length) element[r] = std::fma(times, from[r * down], element[r]);
  }
  FRUGAL_MATRIX_CODE float square() const {
    float sum = 0.0f;
    FRUGAL_MATRIX_UNROLL
    for (int r = 0; r < kStrip; ++r) sum = std::fma(element[r], element[r], sum);
    return sum;
  }
};

// A strip of a matrix; 0 beyond it.
struct MatrixStrip {
  float value[kStrip] = {};

  FRUGAL_MATRIX_CODE void load(const float* from, std::int32_t down, int length) {
    FRUGAL_MATRIX_UNROLL
    for (int r = 0; r < kStrip; ++r) value[r] = r < length ? from[r * down] : 0.0f;
  }
  // That of the penalty, which every edge's begins with.
  FRUGAL_MATRIX_CODE StripGradient gradient(const MatrixPenalty& penalty) const {
    StripGradient gradient;
    if (penalty.factor == 0.0f) return gradient;
    FRUGAL_MATRIX_UNROLL
    for (int r = 0; r < kStrip; ++r) gradient.element[r] = penalty.factor * penalty.rising(value[r]);
    return gradient;
  }
  // The sum of |x|^norm.
  FRUGAL_MATRIX_CODE float amount(const MatrixPenalty& penalty) const {
    float sum = 0.0f;
    FRUGAL_MATRIX_UNROLL
    for (int r = 0; r < kStrip; ++r) sum += penalty.rising(value[r]) * value[r];
    return sum;
  }
  // Adds the step, and `times` times the gradient of the penalty.
  FRUGAL_MATRIX_CODE void move(const StripGradient& step, const MatrixPenalty& penalty, float times) {
    const StripGradient own = gradient(penalty);
    FRUGAL_MATRIX_UNROLL
    for (int r = 0; r < kStrip; ++r) value[r] += std::fma(times, own.element[r], step.element[r]);
  }
  FRUGAL_MATRIX_CODE void store(float* to, std::int32_t down, int length) const {
    FRUGAL_MATRIX_UNROLL
    for (int r = 0; r < kStrip; ++r)
      if (r < length) to[r * down] = value[r];
  }
};

}  // namespace frugal
