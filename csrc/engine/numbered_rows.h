// A fixed set of row ids, numbered in ascending order. Whether a row is in it, and its number, cost one line of memory,
// mostly from a cache: a sixth of a byte for each row of the table.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/huge_pages.h"

namespace frugal {

class NumberedRows {
 public:
  // rows: distinct, not negative, in any order.
  explicit NumberedRows(std::span<const std::int64_t> rows)
      : end_(rows.empty() ? 0 : *std::ranges::max_element(rows) + 1),
        lines_(static_cast<std::size_t>((end_ + kRows - 1) / kRows)) {
    for (const std::int64_t row : rows) lines_[line_of(row)].words[word_of(row)] |= bit_of(row);
    std::int32_t before = 0;
    for (Line& line : lines_) {
      line.before = before;
      std::int32_t within = 0;
      for (std::size_t w = 0; w < kWords; ++w) {
        line.within[w] = static_cast<std::uint16_t>(within);
        within += std::popcount(line.words[w]);
      }
      before += within;
    }
  }

  std::size_t bytes() const { return lines_.size() * sizeof(Line); }
  void prefetch(std::int64_t row) const {
    if (row < end_) __builtin_prefetch(&lines_[line_of(row)]);
  }
  bool has(std::int64_t row) const {
    return row < end_ && (lines_[line_of(row)].words[word_of(row)] & bit_of(row)) != 0;
  }
  // Of a row that is in the set: how many with smaller ids are.
  std::int32_t number_of(std::int64_t row) const {
    const Line& line = lines_[line_of(row)];
    const std::size_t word = word_of(row);
    return line.before + line.within[word] + std::popcount(line.words[word] & (bit_of(row) - 1));
  }

 private:
  static constexpr std::size_t kWords = 6;
  static constexpr std::int64_t kRows = 64 * kWords;  // of a line

  struct alignas(64) Line {
    std::int32_t before;                       // rows of the set in earlier lines
    std::array<std::uint16_t, kWords> within;  // in earlier words of this one
    std::array<std::uint64_t, kWords> words;   // a bit for each row
  };
  static_assert(sizeof(Line) == 64);

  static std::size_t line_of(std::int64_t row) { return static_cast<std::size_t>(row / kRows); }
  static std::size_t word_of(std::int64_t row) { return static_cast<std::size_t>(row % kRows / 64); }
  static std::uint64_t bit_of(std::int64_t row) { return std::uint64_t{1} << (row & 63); }

  std::int64_t end_;  // the rows are below
  LargeArray<Line> lines_;
};

}  // namespace frugal
