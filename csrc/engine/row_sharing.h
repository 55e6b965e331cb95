// Which rows of a rank's step are in the same step of other ranks, too. Of most rows a filter says no at once.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace frugal {

// A set of rows that may take others for its own: a bit for each of many hashes.
class RowFilter {
 public:
  explicit RowFilter(std::int64_t most_rows)
      : words_(std::bit_ceil(static_cast<std::size_t>(most_rows) / 2 + 1)),  // 32 bits and more for each row
        shift_(64 - 6 - std::countr_zero(words_.size())) {}

  void clear() { std::ranges::fill(words_, 0); }
  void add(std::span<const std::int64_t> rows) {
    for (const std::int64_t row : rows) {
      const std::uint64_t bit = hash(row);
      words_[bit >> 6] |= std::uint64_t{1} << (bit & 63);
    }
  }
  bool may_have(std::int64_t row) const {
    const std::uint64_t bit = hash(row);
    return words_[bit >> 6] >> (bit & 63) & 1;
  }

 private:
  std::uint64_t hash(std::int64_t row) const {
    return static_cast<std::uint64_t>(row) * 0x9E3779B97F4A7C15ull >> shift_;
  }

  std::vector<std::uint64_t> words_;
  int shift_;
};

class RowSharing {
 public:
  // ranks: of whom there may be one or none, who share nothing.
  RowSharing(int ranks, std::int64_t most_rows)
      : rows_(static_cast<std::size_t>(ranks)), others_(rows_.size(), RowFilter(std::max(0, ranks - 1) * most_rows)) {}

  // Of which all rows are set; -1: of none.
  std::int64_t step() const { return step_; }
  void set_step(std::int64_t step) { step_ = step; }
  // The rank's rows of the step, ascending, which stay where they are until the next call.
  void set_rows(int rank, std::span<const std::int64_t> rows) { rows_[static_cast<std::size_t>(rank)] = rows; }
  // When those of all ranks are set; threads may do it for several ranks at once.
  void filter_others(int rank) {
    RowFilter& filter = others_[static_cast<std::size_t>(rank)];
    filter.clear();
    for (std::size_t r = 0; r < rows_.size(); ++r)
      if (static_cast<int>(r) != rank) filter.add(rows_[r]);
  }

  // Whether another rank than `rank` has the row.
  bool others_have(int rank, std::int64_t row) const {
    if (!others_[static_cast<std::size_t>(rank)].may_have(row)) return false;
    for (std::size_t r = 0; r < rows_.size(); ++r)
      if (static_cast<int>(r) != rank && std::ranges::binary_search(rows_[r], row)) return true;
    return false;
  }

 private:
  std::int64_t step_ = -1;
  std::vector<std::span<const std::int64_t>> rows_;  // by rank
  std::vector<RowFilter> others_;                    // by rank: the rows of all others
};

}  // namespace frugal
