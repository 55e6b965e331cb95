// Where the parts of a row lie: the embedding first, its optimizer state behind it, then padding to whole cache lines.
#pragma once

#include <cstdint>

namespace frugal {

inline constexpr std::int64_t kLineFloats = 32;  // 128 bytes, the width of one warp request over PCIe

struct RowLayout {
  std::int64_t dim;     // floats of embedding
  std::int64_t stride;  // floats from one row to the next, a multiple of kLineFloats, > dim

  static constexpr RowLayout for_dim(std::int64_t dim) {
    return {dim, (dim + 1 + kLineFloats - 1) / kLineFloats * kLineFloats};
  }
  constexpr std::int64_t state_offset() const { return dim; }
  constexpr std::int64_t bytes() const { return stride * static_cast<std::int64_t>(sizeof(float)); }
};

}  // namespace frugal
