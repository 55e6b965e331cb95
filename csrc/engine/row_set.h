// A set of row ids, one bit per row of the table: whether a row is in it costs one load, mostly from a cache.
//
// When to use: in front of a RowMap, where most rows that are asked about have no value there.
#pragma once

#include <cstddef>
#include <cstdint>

#include "memory/huge_pages.h"

namespace frugal {

class RowSet {
 public:
  // rows: of the table; all ids are below it.
  explicit RowSet(std::int64_t rows) : words_(static_cast<std::size_t>((rows + 63) / 64)) {}

  std::size_t bytes() const { return words_.size() * sizeof(std::uint64_t); }
  void prefetch(std::int64_t row) const { __builtin_prefetch(&words_[word(row)]); }
  bool has(std::int64_t row) const { return words_[word(row)] >> (row & 63) & 1; }
  void insert(std::int64_t row) { words_[word(row)] |= std::uint64_t{1} << (row & 63); }
  void erase(std::int64_t row) { words_[word(row)] &= ~(std::uint64_t{1} << (row & 63)); }

 private:
  static std::size_t word(std::int64_t row) { return static_cast<std::size_t>(row) >> 6; }

  LargeArray<std::uint64_t> words_;
};

}  // namespace frugal
