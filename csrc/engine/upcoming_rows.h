// Which rows the next steps use, as far as those are registered: 4 bytes for each row of the table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/huge_pages.h"

namespace frugal {

class UpcomingRows {
 public:
  // Of no rows: none is in sight.
  UpcomingRows() = default;
  explicit UpcomingRows(std::int64_t rows) : last_(static_cast<std::size_t>(rows)) {
    for (std::int32_t& step : last_) step = kNone;
  }

  static std::int64_t bytes_of(std::int64_t rows) { return rows * std::int64_t{4}; }

  // The first step that has not been seen.
  std::int64_t next() const { return next_; }
  // Sees some rows of step next(); threads may show it some each.
  void see(std::span<const std::int64_t> rows) {
    for (const std::int64_t row : rows) last_[static_cast<std::size_t>(row)] = static_cast<std::int32_t>(next_);
  }
  // All rows of step next() have been seen.
  void see_end() { ++next_; }
  // Whether a later step that has been seen uses the row.
  bool has(std::int64_t row, std::int64_t after) const {
    return !last_.empty() && last_[static_cast<std::size_t>(row)] > after;
  }

 private:
  static constexpr std::int32_t kNone = -1;

  LargeArray<std::int32_t> last_;  // by row: the last step seen that uses it
  std::int64_t next_ = 0;
};

}  // namespace frugal
