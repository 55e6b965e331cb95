// The order of rows that several own: by owner, whose number is `row % owners`, and then ascending.
#pragma once

#include <cstdint>

#include "base/device/everywhere.h"

namespace frugal {

class OwnerOrder {
 public:
  OwnerOrder(std::int64_t rows, int owners)
      : rows_(rows), owners_(owners), share_((rows + owners - 1) / owners), small_(rows <= kMostSmall) {}

  // Numbers of rows are below this.
  FRUGAL_EVERYWHERE std::int64_t numbers() const { return owners_ == 1 ? rows_ : owners_ * share_; }
  FRUGAL_EVERYWHERE std::uint64_t number_of(std::int64_t row) const {
    if (owners_ == 1) return static_cast<std::uint64_t>(row);
    const std::int64_t before = divided(row, owners_);
    return static_cast<std::uint64_t>((row - before * owners_) * share_ + before);
  }
  FRUGAL_EVERYWHERE std::int64_t row_of(std::uint64_t number) const {
    if (owners_ == 1) return static_cast<std::int64_t>(number);
    const std::int64_t owner = divided(static_cast<std::int64_t>(number), share_);
    return (static_cast<std::int64_t>(number) - owner * share_) * owners_ + owner;
  }
  FRUGAL_EVERYWHERE bool has(std::int64_t row) const { return row >= 0 && row < rows_; }

 private:
  static constexpr std::int64_t kMostSmall = std::int64_t{1} << 31;  // whose numbers a processor divides faster

  FRUGAL_EVERYWHERE std::int64_t divided(std::int64_t a, std::int64_t b) const {
    return small_ ? static_cast<std::uint32_t>(a) / static_cast<std::uint32_t>(b) : a / b;
  }

  std::int64_t rows_, owners_, share_;
  bool small_;
};

}  // namespace frugal
