// Which of several workers owns a row of a table, and where the row lies among the worker's own rows.
//
// All rows stand in one order, and each worker owns a range of it: as many rows as the others, or one more. The order
// is that of ids, or a permutation that spreads neighbouring ids over all workers: id * multiplier modulo the number of
// rows, with a multiplier near rows / golden ratio (Fibonacci hashing; Knuth, section 6.4). Neither depends on the
// number of workers, and both directions are computed, so that no worker keeps a map of the whole table. An order that
// is given, such as METIS's, is kept as a map for each direction.
#pragma once

#include <cstdint>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <utility>
#include <vector>

namespace frugal {

class RowOwners {
 public:
  // hashed: else the order is that of ids. Throws std::invalid_argument if a worker would own no row.
  RowOwners(std::int64_t rows, int workers, bool hashed) : RowOwners(rows, workers) {
    if (!hashed) return;
    multiplier_ = static_cast<std::int64_t>(static_cast<double>(rows) * 0.6180339887498949);
    while (multiplier_ < 1 || std::gcd(multiplier_, rows) != 1) ++multiplier_;
    inverse_ = inverse_of(multiplier_, rows);
  }
  // ids: rows of them, in their order. Throws std::invalid_argument if they are not each row once.
  RowOwners(const std::int64_t* ids, std::int64_t rows, int workers) : RowOwners(rows, workers) {
    if (!is_short()) throw std::invalid_argument("a given order has at most 2^32 rows");
    Order order{std::vector<std::uint32_t>(static_cast<std::size_t>(rows)),
                std::vector<std::uint32_t>(static_cast<std::size_t>(rows))};
    std::vector<bool> seen(static_cast<std::size_t>(rows));
    for (std::int64_t position = 0; position < rows; ++position) {
      const std::int64_t id = ids[position];
      if (id < 0 || id >= rows || seen[static_cast<std::size_t>(id)])
        throw std::invalid_argument("an order has each row once");
      seen[static_cast<std::size_t>(id)] = true;
      order.ids[static_cast<std::size_t>(position)] = static_cast<std::uint32_t>(id);
      order.positions[static_cast<std::size_t>(id)] = static_cast<std::uint32_t>(position);
    }
    order_ = std::make_shared<const Order>(std::move(order));
  }

  std::int64_t rows() const { return rows_; }
  int workers() const { return workers_; }
  std::int64_t count(int worker) const { return first(worker + 1) - first(worker); }

  // REQUIRES: 0 <= id < rows().
  int owner(std::int64_t id) const { return owner_at(position(id)); }
  // Its number among the rows of its owner.
  std::int64_t local(std::int64_t id) const {
    const std::int64_t place = position(id);
    return place - first(owner_at(place));
  }
  // REQUIRES: 0 <= local < count(worker).
  std::int64_t id(int worker, std::int64_t local) const {
    const std::int64_t place = first(worker) + local;
    return order_ ? order_->ids[static_cast<std::size_t>(place)] : times(place, inverse_);
  }

 private:
  __extension__ using Wide = unsigned __int128;
  struct Order {
    std::vector<std::uint32_t> ids, positions;
  };

  RowOwners(std::int64_t rows, int workers) : rows_(rows), workers_(workers) {
    if (workers < 1 || rows < workers) throw std::invalid_argument("each worker owns at least one row");
  }

  std::int64_t position(std::int64_t id) const {
    return order_ ? order_->positions[static_cast<std::size_t>(id)] : times(id, multiplier_);
  }
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
  std::shared_ptr<const Order> order_;  // shared by copies; nullptr: the order is computed
};

}  // namespace frugal
