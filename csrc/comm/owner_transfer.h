// Rows of which each rank trains some columns, and one rank takes all of them over the bus.
//
// Ranks sharded by columns move the same rows in the same steps. Where a bus takes rows of a large table, more than
// bytes, a rank that moves its columns of every row is hardly faster than one that moves every row. Here
// the host rows of all ranks lie behind each other, part by part, and each row has an owner, the rank `row % ranks`. It
// reads all parts and stores each into the records of the rank that has those columns; and it stores all parts into the
// host row, from the ranks' slots. Only the owner touches a host row.
//
// With P(k), C(k), W(k) for a rank's prefetch, computation and write-back of step k:
//
//   1. C(k) comes after P(k) of all ranks: its records are there. P(k) ends by telling, and hearing, that.
//   2. W(k) comes after C(k) of all ranks: the values are in their slots. W(k) begins by telling, and hearing, that. So
//      do write-backs ahead of step k after C(k - 1), which they only hear.
//
// As without owners P(k) comes after W(k - 3) of its own rank, and after its write-backs ahead of k. So by 2 the
// records that P(k) stores into, those of k - 3, have been used by all ranks; and by 1 the slots that C(k) writes, of k
// - 3 and of rows that were written back, have been read by all owners. A rank waits for nothing but work that others
// submit without waiting for its later steps; so there is no deadlock.
#pragma once

#include <cstdint>

#include "comm/rank_words.h"
#include "rows/row_program.h"

namespace frugal {

// Waits that a test can leave out, to see that it would find that. On the CPU.
struct OwnerTransferRules {
  bool waits_for_prefetches = true, hears_values = true;
};

struct OwnerTransferRows {
  RowMemory part;  // what one rank has of a row; host_rows: that of rank 0 of the table's first row
  RankWords prefetched, computed;
  float* cache[kMostRanks];  // of each rank, as this one addresses it
  OwnerTransferRules rules = {};

  FRUGAL_HOST_DEVICE int ranks() const { return prefetched.ranks; }
  FRUGAL_HOST_DEVICE bool owns(std::int64_t row) const { return row % prefetched.ranks == prefetched.rank; }
  FRUGAL_HOST_DEVICE float* host_part(std::int64_t row, int rank) const {
    return part.host_rows + (row * prefetched.ranks + rank) * part.stride;
  }
  FRUGAL_HOST_DEVICE float* slot(std::int64_t number, int rank) const { return cache[rank] + number * part.stride; }
};

// Where the records of a step are, in each rank.
struct OwnerTransferRecords {
  float* of[kMostRanks];
};

}  // namespace frugal
