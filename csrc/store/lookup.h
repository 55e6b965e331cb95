// The ids of one lookup, sorted out: which rows it uses, and where each of them occurs.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <span>

namespace frugal {

inline constexpr std::int64_t kNoRow = -1;  // an id that stands for no row: it reads zeros and changes nothing

// Who helps to sort many ids, which changes nothing else: the caller's threads (base/parallel/callers_threads.h), or
// threads in the background that have nothing to do (base/parallel/background.h).
enum class LookupThreads { kCallers, kBackground };

// Throws std::out_of_range: an id is outside of the table.
[[noreturn]] void refuse_id(std::int64_t id, std::int64_t position, std::int64_t rows);

class Lookup {
 public:
  // ids: (count,) in [0, rows), or kNoRow. memory: of most_packed_bytes(count), 16-byte aligned, where the arrays are
  // to lie, and which must stay; nullptr: the lookup has its own. owners: how many own the rows; `row % owners` owns a
  // row, and rows of owner 0 come first. Throws as refuse_id of the first other id, std::invalid_argument for more ids
  // than fit into 32 bits.
  Lookup(const std::int64_t* ids, std::int64_t count, std::int64_t rows, LookupThreads threads,
         std::byte* memory = nullptr, int owners = 1);

  std::int64_t count() const { return std::ssize(inverse_); }
  std::span<const std::int64_t> rows() const { return rows_; }        // (U,) of each owner ascending, distinct
  std::span<const std::int32_t> inverse() const { return inverse_; }  // (n,) ids[i] == rows[inverse[i]]; U: no row
  std::span<const std::int32_t> offset() const { return offset_; }    // (U + 1,) into order
  // Positions in ids, row after row, each row's in ascending order; those of no row are left out.
  std::span<const std::int32_t> order() const { return order_; }

  // All of them lie in one stretch of memory, so that one copy takes them to a device: where rows, inverse, offset and
  // order begin there, in bytes, and behind them how long it is. Rows come first, so that they have the same address in
  // whatever a memory holds.
  std::array<std::size_t, 5> packed() const { return packed_bytes(rows_.size(), inverse_.size(), order_.size()); }
  // As long as the packed lookup of `count` ids can be.
  static std::size_t most_packed_bytes(std::int64_t count);
  // Copies it.
  void pack(std::byte* out) const;

 private:
  static std::array<std::size_t, 5> packed_bytes(std::size_t rows, std::size_t count, std::size_t occurrences);

  std::unique_ptr<std::byte[]> own_;
  std::span<std::int64_t> rows_;
  std::span<std::int32_t> inverse_, offset_, order_;
};

}  // namespace frugal
