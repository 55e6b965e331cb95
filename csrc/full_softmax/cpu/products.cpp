#include "full_softmax/cpu/products.h"

#include <algorithm>
#include <vector>

#include "base/linalg/simd.h"
#include "base/parallel/thread_pool.h"
#include "models/similarity/similarity.h"

namespace frugal::cpu {
namespace {

using namespace FRUGAL_ISA;

constexpr std::int64_t kPanels = 4;  // packed together
constexpr std::int64_t kProductRows = 48, kProductVectors = 16;  // of a piece of a product: whole tiles of registers
constexpr std::int64_t kMostDepths = 1024;  // of a part: two vectors of the right operand stay in the second cache

// rows (count, k) become the transpose of columns (k, count), `from` floats apart; rows are `to` floats apart, room for
// whole vectors.
void transpose(const Kernels& best, const float* columns, std::int64_t from, std::int64_t count, std::int64_t k,
               float* rows, std::int64_t to) {
  float panel[kProductRows * kLanes];
  for (std::int64_t p = 0; p < k; p += kLanes) {
    const float* lines[kLanes];
    for (std::int64_t l = 0; l < kLanes; ++l) lines[l] = columns + std::min(p + l, k - 1) * from;
    best.pack(lines, count, panel);
    for (std::int64_t i = 0; i < count; ++i) std::copy_n(panel + i * kLanes, kLanes, rows + i * to + p);
  }
}

// Pieces of an m x n result, taken by row blocks within column blocks.
template <typename Body>
void for_pieces(std::int64_t m, std::int64_t vectors, Body body) {
  const std::int64_t down = (m + kProductRows - 1) / kProductRows;
  const std::int64_t across = (vectors + kProductVectors - 1) / kProductVectors;
  default_pool().parallel_for(down * across, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t piece = begin; piece < end; ++piece) {
      const std::int64_t row = piece % down * kProductRows, vector = piece / down * kProductVectors;
      body(row, std::min(kProductRows, m - row), vector, std::min(kProductVectors, vectors - vector));
    }
  });
}

}  // namespace

void multiply_transposed(std::int64_t m, std::int64_t n, std::int64_t k, Rows a, Rows b, Rows c) {
  const Kernels& best = kernels();
  const std::int64_t vectors = whole_vectors(n);
  default_pool().parallel_for((vectors + kPanels - 1) / kPanels, 1, [&](std::int64_t begin, std::int64_t end) {
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
  const std::int64_t parts = std::max<std::int64_t>(1, (k + kMostDepths - 1) / kMostDepths);
  for_pieces(m, whole_vectors(n), [&](std::int64_t row, std::int64_t rows, std::int64_t vector, std::int64_t vectors) {
    std::vector<float> turned;
    for (std::int64_t part = 0; part < parts; ++part) {
      const std::int64_t first = part * k / parts, depths = (part + 1) * k / parts - first;
      Left left{a.data + row * a.row_stride + first * a.depth_stride, a.row_stride, a.depth_stride};
      if (a.depth_stride != 1 && a.row_stride == 1) {  // each step of the depth would be on another page
        const std::int64_t stride = whole_vectors(depths) * kLanes;
        turned.resize(static_cast<std::size_t>(rows * stride));
        transpose(best, left.data, a.depth_stride, rows, depths, turned.data(), stride);
        left = {turned.data(), stride, 1};
      }
      const auto product = adds || part > 0 ? best.multiply_on : best.multiply;
      product(rows, vectors, depths, left, {b[first] + vector * kLanes, b.stride, kLanes},
              {c[row] + vector * kLanes, c.stride});
    }
  });
}

}  // namespace frugal::cpu
