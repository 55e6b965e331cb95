// The planner's record of each row of the table: where it lies and how often it is used. All of it lies side by side,
// and so costs one miss, which can be asked for rows ahead.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/huge_pages.h"
#include "engine/plan.h"

namespace frugal {

class RowCells {
 public:
  // Keeps nothing: every row comes from host.
  RowCells() = default;
  // ranks: whose uses are kept.
  RowCells(std::int64_t rows, int ranks)
      : stride_(static_cast<std::size_t>(1 + ranks)), words_(static_cast<std::size_t>(rows) * stride_) {
    for (std::size_t word = 0; word < words_.size(); word += stride_) words_[word] = kFromHost;
  }

  bool empty() const { return words_.empty(); }
  static std::int64_t bytes_of(std::int64_t rows, int ranks) { return rows * (1 + ranks) * std::int64_t{4}; }
  void prefetch(std::int64_t row) const { __builtin_prefetch(&words_[at(row)], 1); }

  // A cache slot, or the slot of the row's value in the write-back buffer (write_back_buffer.h), or kFromHost; with
  // in-step synchronisation also an entry of recent_changes.h.
  std::int32_t& place(std::int64_t row) { return words_[at(row)]; }

  // A step of the rank uses the row. Returns how many have, with this one; 65535 at most.
  std::int32_t count_use(std::int64_t row, int rank) {
    constexpr std::int32_t kMost = 0xffff;
    std::int32_t& count = words_[at(row, rank)];
    return count += count < kMost;
  }

 private:
  std::size_t at(std::int64_t row) const { return static_cast<std::size_t>(row) * stride_; }
  std::size_t at(std::int64_t row, int rank) const { return at(row) + 1 + static_cast<std::size_t>(rank); }

  std::size_t stride_ = 1;
  LargeArray<std::int32_t> words_;
};

}  // namespace frugal
