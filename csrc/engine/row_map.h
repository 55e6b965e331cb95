// A hash map from row ids to small values: open addressing, linear probing, no tombstones (erase shifts back).
//
// When to use: few of very many rows have a value, and one thread owns the map. Grows at 3/4 load. Pointers are valid
// until the next insert or erase.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/huge_pages.h"

namespace frugal {

// Spreads consecutive ids; the high bits are the good ones.
inline std::uint64_t hash_row(std::int64_t row) {
  std::uint64_t x = static_cast<std::uint64_t>(row) * 0x9E3779B97F4A7C15ull;
  x ^= x >> 32;
  return x * 0xD6E8FEB86659FD93ull;
}

template <class Value>
class RowMap {
 public:
  RowMap() { rebuild(kFirstCells); }

  std::size_t size() const { return size_; }
  std::size_t bytes() const { return cells_.size() * sizeof(Cell); }

  void prefetch(std::int64_t row) const { __builtin_prefetch(&cells_[first_cell(row)]); }

  const Value* find(std::int64_t row) const {
    for (std::size_t i = first_cell(row);; i = (i + 1) & mask_) {
      if (cells_[i].row == row) return &cells_[i].value;
      if (cells_[i].row == kEmpty) return nullptr;
    }
  }
  Value* find(std::int64_t row) { return const_cast<Value*>(std::as_const(*this).find(row)); }

  // The value of row, default-constructed if it was not there.
  Value& operator[](std::int64_t row) {
    for (std::size_t i = first_cell(row);; i = (i + 1) & mask_) {
      if (cells_[i].row == row) return cells_[i].value;
      if (cells_[i].row == kEmpty) {
        if ((size_ + 1) * 4 > cells_.size() * 3) {
          rebuild(cells_.size() * 2);
          return (*this)[row];
        }
        ++size_;
        cells_[i] = {row, Value{}};
        return cells_[i].value;
      }
    }
  }

  bool erase(std::int64_t row) {
    std::size_t hole = first_cell(row);
    while (cells_[hole].row != row) {
      if (cells_[hole].row == kEmpty) return false;
      hole = (hole + 1) & mask_;
    }
    // Every later cell of the run that may move into the hole does, so that no search ends too early.
    for (std::size_t i = (hole + 1) & mask_; cells_[i].row != kEmpty; i = (i + 1) & mask_) {
      const std::size_t from_first = (i - first_cell(cells_[i].row)) & mask_, from_hole = (i - hole) & mask_;
      if (from_first >= from_hole) {
        cells_[hole] = cells_[i];
        hole = i;
      }
    }
    cells_[hole].row = kEmpty;
    --size_;
    return true;
  }

 private:
  static constexpr std::int64_t kEmpty = -1;  // row ids are not negative
  static constexpr std::size_t kFirstCells = 16;
  struct Cell {
    std::int64_t row = kEmpty;
    Value value{};
  };
  static constexpr std::size_t kCellsOfLine = 64 % sizeof(Cell) == 0 ? 64 / sizeof(Cell) : 1;

  // Where a search begins: with the first cell of a line, so that it seldom needs a second line.
  std::size_t first_cell(std::int64_t row) const { return hash_row(row) >> shift_ & ~(kCellsOfLine - 1); }

  void rebuild(std::size_t capacity) {
    LargeArray<Cell> old = std::exchange(cells_, LargeArray<Cell>(capacity));
    mask_ = capacity - 1;
    shift_ = 64 - std::countr_zero(capacity);
    size_ = 0;
    for (const Cell& cell : old)
      if (cell.row != kEmpty) (*this)[cell.row] = cell.value;
  }

  LargeArray<Cell> cells_;
  std::size_t mask_ = 0, size_ = 0;
  int shift_ = 0;
};

}  // namespace frugal
