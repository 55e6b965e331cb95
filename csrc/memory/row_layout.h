// Where the parts of a row lie: the embedding first, its optimizer state behind it, then padding to whole cache lines.
#pragma once

#include <cstdint>

namespace frugal {

inline constexpr std::int64_t kLineFloats = 32;  // 128 bytes, the width of one warp request over PCIe

struct RowLayout {
  std::int64_t dim;     // floats of embedding
  std::int64_t stride;  // floats from one row to the next, a multiple of kLineFloats, >= record_floats()
  std::int64_t state = 1;  // floats of optimizer state

  static constexpr RowLayout for_dim(std::int64_t dim, std::int64_t state = 1) {
    return {dim, (dim + state + kLineFloats - 1) / kLineFloats * kLineFloats, state};
  }
  constexpr std::int64_t state_offset() const { return dim; }
  constexpr std::int64_t record_floats() const { return dim + state; }  // what moves when a row moves
  constexpr std::int64_t bytes() const { return stride * static_cast<std::int64_t>(sizeof(float)); }
};

}  // namespace frugal
