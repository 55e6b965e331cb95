#pragma once

#include <cstdint>

namespace frugal {

// A float32 matrix whose rows may be further apart than they are long. Not owned.
struct RowsView {
  const float* data;
  std::int64_t rows;
  std::int64_t dim;
  std::int64_t stride;  // floats from one row to the next

  const float* row(std::int64_t index) const { return data + index * stride; }
};

}  // namespace frugal
