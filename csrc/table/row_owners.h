// Which of several workers owns a row of a table, and where the row lies among the worker's own rows.
//
// All rows stand in one order, which does not depend on the number of workers, and each worker owns a range of it: as
// many rows as the others, or one more. The order is that of ids, or a permutation that spreads neighbouring ids over
// all workers: id * multiplier modulo the number of rows, with a multiplier near rows / golden ratio (Fibonacci
// hashing; Knuth, section 6.4). Both directions are computed, so that no worker keeps a map of the whole table.
#pragma once

#include <cstdint>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace frugal {

class RowOwners {
 public:
  // hashed: else the order is that of ids. Throws std::invalid_argument if a worker would own no row.
  RowOwners(std::int64_t rows, int workers, bool hashed) : rows_(rows), workers_(workers) {
    if (workers < 1 || rows < workers) throw std::invalid_argument("each worker owns at least one row");
    if (!hashed) return;
    multiplier_ = static_cast<std::int64_t>(static_cast<double>(rows) * 0.6180339887498949);
    while (multiplier_ < 1 || std::gcd(multiplier_, rows) != 1) ++multiplier_;
    inverse_ = inverse_of(multiplier_, rows);
  }

  std::int64_t rows() const { return rows_; }
  int workers() const { return workers_; }
  std::int64_t count(int worker) const { return first(worker + 1) - first(worker); }

  // REQUIRES: 0 <= id < rows().
  int owner(std::int64_t id) const { return owner_at(times(id, multiplier_)); }
  // Its number among the rows of its owner.
  std::int64_t local(std::int64_t id) const {
    const std::int64_t position = times(id, multiplier_);
    return position - first(owner_at(position));
  }
  // REQUIRES: 0 <= local < count(worker).
  std::int64_t id(int worker, std::int64_t local) const { return times(first(worker) + local, inverse_); }

 private:
  __extension__ using Wide = unsigned __int128;

  // Whether products take 64 bits, which divide much faster.
  bool is_short() const { return rows_ <= std::int64_t{1} << 32; }
  std::int64_t times(std::int64_t a, std::int64_t b) const {
    const auto rows = static_cast<std::uint64_t>(rows_);
    if (is_short())
      return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b) % rows);
    return static_cast<std::int64_t>(static_cast<Wide>(a) * static_cast<std::uint64_t>(b) % rows);
  }
  std::int64_t first(int worker) const {
    if (is_short())
      return static_cast<std::int64_t>(static_cast<std::uint64_t>(rows_) * static_cast<unsigned>(worker) /
                                       static_cast<unsigned>(workers_));
    return static_cast<std::int64_t>(static_cast<Wide>(rows_) * static_cast<unsigned>(worker) /
                                     static_cast<unsigned>(workers_));
  }
  int owner_at(std::int64_t position) const {
    if (is_short())
      return static_cast<int>((static_cast<std::uint64_t>(position + 1) * static_cast<unsigned>(workers_) - 1) /
                              static_cast<std::uint64_t>(rows_));
    const auto scaled = static_cast<Wide>(position + 1) * static_cast<unsigned>(workers_) - 1;
    return static_cast<int>(scaled / static_cast<std::uint64_t>(rows_));
  }
  static std::int64_t inverse_of(std::int64_t a, std::int64_t modulus) {
    std::int64_t x = 1, next = 0, r = a, other = modulus;
    while (other != 0) {
      const std::int64_t quotient = r / other;
      r = std::exchange(other, r - quotient * other);
      x = std::exchange(next, x - quotient * next);
    }
    return ((x % modulus) + modulus) % modulus;
  }

  std::int64_t rows_;
  int workers_;
  std::int64_t multiplier_ = 1, inverse_ = 1;
};

}  // namespace frugal
