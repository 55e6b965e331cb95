#include "full_softmax/cpu/products.h"

#include <algorithm>
#include <vector>

#include "base/linalg/simd.h"
#include "base/parallel/thread_pool.h"
#include "models/similarity/similarity.h"

namespace frugal::cpu {
namespace {

using namespace FRUGAL_ISA;

constexpr std::int64_t kPanels = 4;     // packed together
constexpr std::int64_t kTileRows = 12;  // whole tiles of registers, of every instruction set
constexpr std::int64_t kPieceTiles = 16, kProductVectors = 16;  // of a piece of a product
constexpr std::int64_t kAhead = 24;         // steps of the depth for which a gather asks ahead
constexpr std::int64_t kMostDepths = 1024;  // of a part: two vectors of the right operand stay in the second cache

std::int64_t tiles_of(std::int64_t rows) { return (rows + kTileRows - 1) / kTileRows; }

// The columns (k, count) become tiles of kTileRows of them each, (k, kTileRows), one after the other. Each step of the
// depth lies on another page, where no processor looks ahead.
void gather_tiles(const float* columns, std::int64_t stride, std::int64_t count, std::int64_t k, float* tiles) {
  for (std::int64_t p = 0; p < k; ++p) {
    const float* const ahead = columns + std::min(p + kAhead, k - 1) * stride;
    for (std::int64_t i = 0; i < count; i += kLanes) __builtin_prefetch(ahead + i);
    for (std::int64_t i = 0; i < count; i += kTileRows)
      std::copy_n(columns + p * stride + i, std::min(kTileRows, count - i), tiles + i * k + p * kTileRows);
  }
}

// Calls body(row, rows, vector, vectors) for the pieces of an m x n result that the tiles begin .. end of its rows make
// up, whose number counts on from one column of pieces to the next.
template <typename Body>
void for_pieces(std::int64_t m, std::int64_t vectors, std::int64_t begin, std::int64_t end, Body body) {
  const std::int64_t down = tiles_of(m);
  for (std::int64_t tile = begin; tile < end;) {
    const std::int64_t first = tile % down, count = std::min({kPieceTiles, down - first, end - tile});
    const std::int64_t row = first * kTileRows, vector = tile / down * kProductVectors;
    body(row, std::min(count * kTileRows, m - row), vector, std::min(kProductVectors, vectors - vector));
    tile += count;
  }
}

}  // namespace

void multiply_transposed(std::int64_t m, std::int64_t n, std::int64_t k, Rows a, Rows b, Rows c) {
  const Kernels& best = kernels();
  const std::int64_t vectors = whole_vectors(n);
  default_pool()->parallel_for((vectors + kPanels - 1) / kPanels, 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> panels(static_cast<std::size_t>(kPanels * k * kLanes));
    for (std::int64_t v = begin * kPanels; v < std::min(vectors, end * kPanels); v += kPanels) {
      const std::int64_t count = std::min(kPanels, vectors - v);
      for (std::int64_t p = 0; p < count; ++p) {
        const float* rows[kLanes];
        for (std::int64_t l = 0; l < kLanes; ++l) rows[l] = b[std::min((v + p) * kLanes + l, n - 1)];
        best.pack(rows, k, panels.data() + p * k * kLanes);
      }
      best.multiply(m, count, k, {a.data, a.stride, 1}, {panels.data(), kLanes, kLanes * k},
                    {c.data + v * kLanes, c.stride});
    }
  });
}

void multiply(std::int64_t m, std::int64_t n, std::int64_t k, Left a, Rows b, Rows c, bool adds) {
  const Kernels& best = kernels();
  const std::int64_t all_vectors = whole_vectors(n), across = (all_vectors + kProductVectors - 1) / kProductVectors;
  const std::int64_t parts = std::max<std::int64_t>(1, (k + kMostDepths - 1) / kMostDepths);
  const bool gathers = a.depth_stride != 1 && a.row_stride == 1;
  default_pool()->parallel_for(tiles_of(m) * across, 1, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t room = gathers ? kPieceTiles * kTileRows * std::min(k, kMostDepths) : 0;
    std::vector<float> tiles(static_cast<std::size_t>(room));
    for (std::int64_t part = 0; part < parts; ++part) {
      const std::int64_t first = part * k / parts, depths = (part + 1) * k / parts - first;
      const auto product = adds || part > 0 ? best.multiply_on : best.multiply;
      for_pieces(m, all_vectors, begin, end,
                 [&](std::int64_t row, std::int64_t rows, std::int64_t vector, std::int64_t vectors) {
        const Right right{b[first] + vector * kLanes, b.stride, kLanes};
        const float* const left = a.data + row * a.row_stride + first * a.depth_stride;
        if (!gathers)
          return product(rows, vectors, depths, {left, a.row_stride, a.depth_stride}, right,
                         {c[row] + vector * kLanes, c.stride});
        gather_tiles(left, a.depth_stride, rows, depths, tiles.data());
        for (std::int64_t i = 0; i < rows; i += kTileRows)
          product(std::min(kTileRows, rows - i), vectors, depths, {tiles.data() + i * depths, 1, kTileRows}, right,
                  {c[row + i] + vector * kLanes, c.stride});
      });
    }
  });
}

}  // namespace frugal::cpu
