// Where the elements of matrices lie.
#pragma once

#include <cstdint>

namespace frugal {

// Rows of floats, written or read whole vectors at a time.
struct Rows {
  float* data;
  std::int64_t stride;
  float* operator[](std::int64_t i) const { return data + i * stride; }
};

// A product's left operand: element (i, p) is data[i * row_stride + p * depth_stride].
struct Left {
  const float* data;
  std::int64_t row_stride, depth_stride;
};

// Its right operand: the sixteen elements (p, 16 v ..) begin at data[p * depth_stride + v * vector_stride]. A row-major
// matrix has (row stride, 16), panels of depth k have (16, 16 k).
struct Right {
  const float* data;
  std::int64_t depth_stride, vector_stride;
};

}  // namespace frugal
