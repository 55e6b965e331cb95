// Where the parts of a row lie: the embedding first, its optimizer state behind it, then padding to whole cache lines.
//
// An embedding is kept in float32 or in half precision, two numbers in a float32's place; the state always is floats.
// Whoever only moves records needs no more than their number of floats.
#pragma once

#include <cstdint>
#include <stdexcept>

namespace frugal {

inline constexpr std::int64_t kLineFloats = 32;  // 128 bytes, the width of one warp request over PCIe

enum class RowElement : std::uint8_t { kFloat32, kFloat16 };

// Floats whose place `dim` elements take.
constexpr std::int64_t embedding_floats(std::int64_t dim, RowElement element) {
  return element == RowElement::kFloat32 ? dim : (dim + 1) / 2;
}

struct RowLayout {
  std::int64_t dim;     // elements of embedding
  std::int64_t stride;  // floats from one row to the next, a multiple of kLineFloats, >= record_floats()
  std::int64_t state = 1;  // floats of optimizer state
  RowElement element = RowElement::kFloat32;

  static constexpr RowLayout for_dim(std::int64_t dim, std::int64_t state = 1,
                                     RowElement element = RowElement::kFloat32) {
    const std::int64_t floats = embedding_floats(dim, element) + state;
    return {dim, (floats + kLineFloats - 1) / kLineFloats * kLineFloats, state, element};
  }
  constexpr bool is_half() const { return element != RowElement::kFloat32; }
  constexpr std::int64_t state_offset() const { return embedding_floats(dim, element); }
  constexpr std::int64_t record_floats() const { return state_offset() + state; }  // what moves when a row moves
  // The same rows in floats, as steps compute with them and as far apart as gradients of rows leave a step.
  constexpr RowLayout in_floats() const { return is_half() ? for_dim(dim, state) : *this; }
  // Throws std::invalid_argument for rows in half precision: what works on rows where they lie takes them for floats.
  void require_floats() const {
    if (is_half()) throw std::invalid_argument("these rows are in half precision, which only a step of "
                                               "StochasticRoundedRows changes");
  }
  constexpr std::int64_t bytes() const { return stride * static_cast<std::int64_t>(sizeof(float)); }
};

}  // namespace frugal
