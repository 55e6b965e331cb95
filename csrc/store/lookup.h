// The ids of one lookup, sorted out: which rows it uses, and where each of them occurs.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace frugal {

inline constexpr std::int64_t kNoRow = -1;  // an id that stands for no row: it reads zeros and changes nothing

class Lookup {
 public:
  // ids: (count,) in [0, rows), or kNoRow. helpers: whether the caller's threads (base/parallel/callers_threads.h) take
  // part, which changes nothing else. Throws std::out_of_range naming the first other id, std::invalid_argument for
  // more ids than fit into 32 bits.
  Lookup(const std::int64_t* ids, std::int64_t count, std::int64_t rows, bool helpers = false);

  std::int64_t count() const { return static_cast<std::int64_t>(inverse_.size()); }
  const std::vector<std::int64_t>& rows() const { return rows_; }        // (U,) ascending, distinct
  const std::vector<std::int32_t>& inverse() const { return inverse_; }  // (n,) ids[i] == rows[inverse[i]]; U: no row
  const std::vector<std::int32_t>& offset() const { return offset_; }    // (U + 1,) into order
  // Positions in ids, row after row, each row's in ascending order; those of no row are left out.
  const std::vector<std::int32_t>& order() const { return order_; }

  // Where rows, inverse, offset and order begin in the packed lookup, in bytes, and behind them how long it is. Rows
  // come first, so that they have the same address in whatever a memory holds.
  std::array<std::size_t, 5> packed() const;
  // As long as the packed lookup of `count` ids can be.
  static std::size_t most_packed_bytes(std::int64_t count);
  // Writes them there, so that one copy takes them to a device.
  void pack(std::byte* out) const;

 private:
  std::vector<std::int64_t> rows_;
  std::vector<std::int32_t> inverse_, offset_, order_;
};

}  // namespace frugal
