// The loop over blocks of table rows and strips of queries that ranking.cpp and best_rows.cpp share.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "ranking/operation.h"
#include "ranking/rows_view.h"
#include "ranking/tile_kernel.h"

namespace frugal {

// The rows one pass looks at: all of the table, or the ids of a list.
struct Candidates {
  const std::int64_t* ids;  // or null
  std::int64_t count;

  std::int64_t id(std::int64_t index) const { return ids ? ids[index] : index; }
};

// Buffers of one thread. A tile is handed on while it is in the first-level cache.
class TileLoop {
 public:
  static constexpr float kNever = -std::numeric_limits<float>::infinity();  // the key of padding

  TileLoop(Operation operation, const RowsView& queries, const RowsView& table, const float* bias)
      : queries_(queries), table_(table), bias_(bias), kernel_(tile_kernel()), function_(function_of(operation)) {
    const std::int64_t row_bytes = std::max<std::int64_t>(table.dim * static_cast<std::int64_t>(sizeof(float)), 1);
    const std::int64_t strips = kBlockBytes / row_bytes / kernel_.strip_rows;
    block_rows_ = std::clamp(strips * kernel_.strip_rows, kernel_.strip_rows, kMostRows);
    packed_rows_.resize(block_rows_ * table.dim);
    tile_.resize(block_rows_ * kernel_.strip_queries);
  }

  // Calls visit(query, keys, first, rows, padded) for each query in [begin, end) and each block of candidates, in
  // ascending order of blocks: keys[j] is that of candidate first + j for j < rows, and kNever for rows <= j < padded.
  template <typename Visit>
  void run(std::int64_t begin, std::int64_t end, Candidates candidates, Visit&& visit) {
    for (std::int64_t first = begin; first < end; first += kQueriesAtOnce) {
      run_at_once(first, std::min(end, first + kQueriesAtOnce), candidates, visit);
    }
  }

 private:
  static constexpr std::int64_t kBlockBytes = 512 * 1024;  // packed rows at a time: half of a usual second-level cache
  static constexpr std::int64_t kMostRows = 512;           // the tile of a strip must stay in the first-level cache
  static constexpr std::int64_t kQueriesAtOnce = 8192;     // packed queries of a thread; amortizes the packing of rows

  TileFunction function_of(Operation operation) const {
    if (operation == Operation::kL1) return kernel_.l1;
    return operation == Operation::kModulus ? kernel_.modulus : kernel_.dot;
  }

  // Packs rows 0 .. count - 1 into strips, element by element; missing rows of the last strip are zero.
  template <typename RowOf>
  static void pack(std::int64_t count, std::int64_t dim, std::int64_t strip, float* to, RowOf&& row_of) {
    for (std::int64_t first = 0; first < count; first += strip, to += strip * dim) {
      const std::int64_t here = std::min(strip, count - first);
      for (std::int64_t i = 0; i < here; ++i) {
        const float* row = row_of(first + i);
        for (std::int64_t k = 0; k < dim; ++k) to[k * strip + i] = row[k];
      }
      for (std::int64_t k = 0; here < strip && k < dim; ++k) {
        std::fill(to + k * strip + here, to + (k + 1) * strip, 0.0f);
      }
    }
  }

  template <typename Visit>
  void run_at_once(std::int64_t begin, std::int64_t end, Candidates candidates, Visit& visit) {
    const std::int64_t dim = table_.dim, strip_queries = kernel_.strip_queries;
    packed_queries_.resize((end - begin + strip_queries - 1) / strip_queries * strip_queries * dim);
    pack(end - begin, dim, strip_queries, packed_queries_.data(),
         [&](std::int64_t i) { return queries_.row(begin + i); });
    for (std::int64_t first = 0; first < candidates.count; first += block_rows_) {
      const std::int64_t rows = std::min(block_rows_, candidates.count - first);
      const std::int64_t padded = (rows + kernel_.strip_rows - 1) / kernel_.strip_rows * kernel_.strip_rows;
      pack(rows, dim, kernel_.strip_rows, packed_rows_.data(),
           [&](std::int64_t i) { return table_.row(candidates.id(first + i)); });
      const float* strip = packed_queries_.data();
      for (std::int64_t query = begin; query < end; query += strip_queries, strip += dim * strip_queries) {
        function_(strip, packed_rows_.data(), dim, padded, tile_.data());
        for (std::int64_t i = 0; i < std::min(strip_queries, end - query); ++i) {
          float* keys = tile_.data() + i * padded;
          add_bias(keys, candidates, first, rows);
          std::fill(keys + rows, keys + padded, kNever);
          visit(query + i, keys, first, rows, padded);
        }
      }
    }
  }

  void add_bias(float* keys, Candidates candidates, std::int64_t first, std::int64_t rows) const {
    if (bias_ && candidates.ids) {
      for (std::int64_t i = 0; i < rows; ++i) keys[i] += bias_[candidates.ids[first + i]];
    } else if (bias_) {
      for (std::int64_t i = 0; i < rows; ++i) keys[i] += bias_[first + i];
    }
  }

  const RowsView queries_;
  const RowsView table_;
  const float* const bias_;
  const TileKernel& kernel_;
  const TileFunction function_;
  std::int64_t block_rows_;
  std::vector<float> packed_rows_;
  std::vector<float> packed_queries_;
  std::vector<float> tile_;
};

}  // namespace frugal
