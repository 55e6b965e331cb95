// Row-wise Adagrad as DGL-KE computes it: one float of state per row.
//
// For one entry (an ordered list of occurrences of rows, each with its gradient):
//   1. state[row] += mean(g*g) for every occurrence, in order;
//   2. row += (-lr * g) / (sqrt(state[row]) + 1e-10) for every occurrence, in order, with the state after 1.
// Duplicates are not merged, so both halves are separate functions: all of 1 comes before any of 2.
// Source: dglke/models/pytorch/tensor_models.py, ExternalEmbedding.update. Compile with -ffp-contract=off: a fused
// multiply-add would round differently from DGL-KE and from the CUDA code.
#pragma once

#include <cmath>
#include <cstdint>

#include "table/mean_square.h"

namespace frugal {

inline constexpr float kAdagradEpsilon = 1e-10f;

struct RowAdagrad {
  float learning_rate;

  static float deviation(float state) { return std::sqrt(state) + kAdagradEpsilon; }

  void accumulate(float& state, const float* gradient, std::int64_t dim) const { state += mean_square(gradient, dim); }

  // row and gradient: dim floats that do not overlap. deviation: of the row's state after all occurrences.
  void move(float* __restrict row, float deviation, const float* __restrict gradient, std::int64_t dim) const {
    const float negative_rate = -learning_rate;
    for (std::int64_t i = 0; i < dim; ++i) row[i] += negative_rate * gradient[i] / deviation;
  }

  void apply(float* __restrict row, float state, const float* __restrict gradient, std::int64_t dim) const {
    move(row, deviation(state), gradient, dim);
  }
};

}  // namespace frugal
