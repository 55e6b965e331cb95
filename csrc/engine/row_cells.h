// What the planner knows of each row of the table: where it lies and how it is used. All of it lies side by side, and so
// costs one miss, which can be asked for rows ahead.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "engine/cache_policy.h"
#include "engine/plan.h"
#include "memory/huge_pages.h"

namespace frugal {

// The uses of a row by one rank.
struct RowUses {
  static constexpr int kSteps = 16;

  std::uint16_t count = 0;     // of planned steps, 65535 at most
  std::uint16_t upcoming = 0;  // a bit for each of the next steps that are seen, by their numbers modulo kSteps

  void see(std::int64_t step) { upcoming = static_cast<std::uint16_t>(upcoming | 1u << step % kSteps); }
  // The step is planned. Returns in how many steps the next use follows, 0: none is in sight.
  std::uint16_t plan(std::int64_t step) {
    count = static_cast<std::uint16_t>(count + (count != 0xffff));
    upcoming = static_cast<std::uint16_t>(upcoming & ~(1u << step % kSteps));
    const int ahead = std::countr_zero(std::rotr(upcoming, static_cast<int>((step + 1) % kSteps))) + 1;
    return static_cast<std::uint16_t>(upcoming != 0 ? ahead : 0);
  }
};

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
  std::size_t bytes() const { return words_.size() * sizeof(std::int32_t); }
  void prefetch(std::int64_t row) const { __builtin_prefetch(&words_[at(row)], 1); }

  // A cache slot, or the slot behind the cache where the row's value waits on its way home (in_flight_slots.h), or
  // kFromHost; of ranks that meet, also an entry of recent_changes.h.
  std::int32_t& place(std::int64_t row) { return words_[at(row)]; }

  RowUses uses(std::int64_t row, int rank) const { return std::bit_cast<RowUses>(words_[at(row, rank)]); }
  void set_uses(std::int64_t row, int rank, RowUses uses) {
    words_[at(row, rank)] = std::bit_cast<std::int32_t>(uses);
  }

 private:
  std::size_t at(std::int64_t row) const { return static_cast<std::size_t>(row) * stride_; }
  std::size_t at(std::int64_t row, int rank) const { return at(row) + 1 + static_cast<std::size_t>(rank); }

  std::size_t stride_ = 1;
  LargeArray<std::int32_t> words_;
};

}  // namespace frugal
