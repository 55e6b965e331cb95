// A table that every rank holds as a whole, and how the replicas stay the same.
//
// In a step each rank adds up its own gradients of each row that it has, and their mean squares, entry by entry, in
// the order of the row's occurrences and beginning with 0. It puts these sums out with the ids of the rows through an
// exchange (comm/host_exchange.h). Then every rank applies the sums of all ranks, in rank order, to its replica:
// each is one occurrence of row-wise Adagrad (table/row_adagrad.h) that brings its mean square along. All occurrences
// move by the final deviation, so that their sum is the same update but for the order of sums.
//
// cpu/replica_updates.h is the reference for cuda/replica_updates.h, which has the same bits.
#pragma once

#include <cstdint>
#include <limits>

#include "rows/row_program.h"

namespace frugal {

// The arrays that a rank publishes: for `rows` rows at most, their ids in ascending order, then kNoRow; for each of
// `entries` the rows' mean squares; and for each entry their sums. Places are in floats from the part's beginning.
struct ReplicaPart {
  static constexpr std::int32_t kNoRow = std::numeric_limits<std::int32_t>::max();

  std::int64_t rows, dim;
  int entries = 1;

  FRUGAL_HOST_DEVICE static std::int64_t in_fours(std::int64_t floats) { return (floats + 3) / 4 * 4; }
  FRUGAL_HOST_DEVICE std::int64_t squares(int entry) const { return in_fours(rows) * (1 + entry); }
  FRUGAL_HOST_DEVICE std::int64_t sum(int entry, std::int64_t row) const {
    return squares(entries) + (entry * rows + row) * in_fours(dim);
  }
  FRUGAL_HOST_DEVICE std::int64_t floats() const { return sum(entries, 0); }
};

}  // namespace frugal
