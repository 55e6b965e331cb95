// The ids of one lookup, sorted out: which rows it uses, and where each of them occurs.
#pragma once

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
  // ids: (count,) in [0, rows), or kNoRow. owners: how many own the rows; `row % owners` owns a row, and rows of owner
  // 0 come first. Throws as refuse_id, std::invalid_argument for more ids than fit into 32 bits.
  Lookup(const std::int64_t* ids, std::int64_t count, std::int64_t rows, LookupThreads threads, int owners = 1);

  std::int64_t count() const { return std::ssize(inverse_); }
  std::span<const std::int64_t> rows() const { return rows_; }        // (U,) of each owner ascending, distinct
  std::span<const std::int32_t> inverse() const { return inverse_; }  // (n,) ids[i] == rows[inverse[i]]; U: no row
  std::span<const std::int32_t> offset() const { return offset_; }    // (U + 1,) into order
  // Positions in ids, row after row, each row's in ascending order; those of no row are left out.
  std::span<const std::int32_t> order() const { return order_; }

 private:
  std::unique_ptr<std::byte[]> memory_;  // of all arrays
  std::span<std::int64_t> rows_;
  std::span<std::int32_t> inverse_, offset_, order_;
};

}  // namespace frugal
