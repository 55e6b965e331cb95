// A pseudo-random permutation of [0, size) that is computed, not stored: an epoch's order over 338 M edges takes a few
// dozen bytes, any thread can ask for any position, and a resumed run continues in the middle of an epoch.
//
// A mixed-radix Feistel network (Black and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002) over
// [0, rows * columns), the smallest near-square grid that holds [0, size), but at least 32 x 32. Positions that land
// outside [0, size) are mapped again until they land inside ("cycle walking"); on a large graph one in sqrt(size) has
// to.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <stdexcept>

#include "base/random/philox.h"

namespace frugal {

class Permutation {
 public:
  Permutation() = default;

  // size in [0, 2^62]. Another (seed, stream, number) gives another permutation.
  Permutation(std::uint64_t size, std::uint64_t seed, std::uint64_t stream, std::uint64_t number) : size_(size) {
    if (size > std::uint64_t{1} << 62) throw std::invalid_argument("a permutation of more than 2^62 elements");
    std::uint64_t rows = static_cast<std::uint64_t>(std::sqrt(static_cast<double>(size)));
    while (rows * rows < size) ++rows;  // the square root was rounded
    rows = std::max<std::uint64_t>(kMinSide, rows);
    rows_ = static_cast<std::uint32_t>(rows);
    columns_ = static_cast<std::uint32_t>(std::max<std::uint64_t>(kMinSide, (size + rows - 1) / rows));
    for (std::uint64_t block = 0; block < kRounds / 2; ++block) {
      const PhiloxBlock words = philox(seed, number * (kRounds / 2) + block, stream);
      for (std::uint64_t half = 0; half < 2; ++half) keys_[2 * block + half] = {words[2 * half], words[2 * half + 1]};
    }
  }

  std::uint64_t size() const { return size_; }

  // The element at `position`. REQUIRES: position < size().
  std::uint64_t operator()(std::uint64_t position) const {
    do {
      auto row = static_cast<std::uint32_t>(position / columns_),
           column = static_cast<std::uint32_t>(position % columns_);
      for (int round = 0; round < kRounds; round += 2) {
        row = add(row, scramble(column, keys_[round], rows_), rows_);
        column = add(column, scramble(row, keys_[round + 1], columns_), columns_);
      }
      position = std::uint64_t{row} * columns_ + column;
    } while (position >= size_);
    return position;
  }

  // elements[i] = (*this)(first + i) for i in [0, count), several at a time: the rounds run on vector registers.
  void range(std::uint64_t first, std::int64_t count, std::int64_t* elements) const {
    auto row = static_cast<std::uint32_t>(first / columns_), column = static_cast<std::uint32_t>(first % columns_);
    several(count, elements, [&](std::int64_t) {
      const Cell cell{row, column};
      if (++column == columns_) column = 0, ++row;
      return cell;
    });
  }

  // elements[i] = (*this)(elements[i]). REQUIRES: all below size().
  void apply(std::int64_t count, std::int64_t* elements) const {
    several(count, elements, [&](std::int64_t i) {
      const auto position = static_cast<std::uint64_t>(i < count ? elements[i] : 0);
      if (position >> 32) {
        return Cell{static_cast<std::uint32_t>(position / columns_), static_cast<std::uint32_t>(position % columns_)};
      }
      const auto narrow = static_cast<std::uint32_t>(position);  // divides faster
      return Cell{narrow / columns_, narrow % columns_};
    });
  }

 private:
  static constexpr int kRounds = 8;
  static constexpr std::uint64_t kMinSide = 32;  // a network over a handful of elements is visibly biased
  struct Key {
    std::uint32_t before = 0, between = 0;
  };

  struct Cell {
    std::uint32_t row, column;
  };

  // elements[i] = what lies at cell(i), which is asked for i = 0, 1, ... in order, also for some i >= count.
  template <typename F>
  void several(std::int64_t count, std::int64_t* elements, F cell) const {
    constexpr int kLanes = 16;
    for (std::int64_t begin = 0; begin < count; begin += kLanes) {
      std::uint32_t row[kLanes], column[kLanes];
      for (int lane = 0; lane < kLanes; ++lane) {
        const Cell at = cell(begin + lane);
        row[lane] = at.row;
        column[lane] = at.column;
      }
      for (int round = 0; round < kRounds; round += 2) {
        for (int lane = 0; lane < kLanes; ++lane) {
          row[lane] = add(row[lane], scramble(column[lane], keys_[round], rows_), rows_);
        }
        for (int lane = 0; lane < kLanes; ++lane) {
          column[lane] = add(column[lane], scramble(row[lane], keys_[round + 1], columns_), columns_);
        }
      }
      const std::int64_t lanes = std::min<std::int64_t>(kLanes, count - begin);
      for (std::int64_t lane = 0; lane < lanes; ++lane) {
        const std::uint64_t element = std::uint64_t{row[lane]} * columns_ + column[lane];
        elements[begin + lane] = static_cast<std::int64_t>(element < size_ ? element : (*this)(element));
      }
    }
  }

  // A keyed number in [0, bound) from `half`; the constants are those of the 32-bit finalizer of MurmurHash3.
  static std::uint32_t scramble(std::uint32_t half, const Key& key, std::uint32_t bound) {
    half = (half ^ key.before) * 0x85EBCA6Bu;
    half = ((half ^ half >> 15) + key.between) * 0xC2B2AE35u;
    half ^= half >> 16;
    return static_cast<std::uint32_t>(std::uint64_t{half} * bound >> 32);
  }

  // a + b modulo `modulus`, which is at most 2^31, so that the sum fits; a, b < modulus.
  static std::uint32_t add(std::uint32_t a, std::uint32_t b, std::uint32_t modulus) {
    const std::uint32_t sum = a + b;
    return std::min(sum, sum - modulus);  // sum - modulus wraps to a larger number where it is negative
  }

  std::uint64_t size_ = 0;
  std::uint32_t rows_ = 1, columns_ = 1;  // rows * columns >= size
  std::array<Key, kRounds> keys_;
};

}  // namespace frugal
