// Rows that several ranks change in one step, where ranks synchronise inside it: rows of one host table, of which each
// rank otherwise changes the rows that it has alone.
//
// Each rank has written its gradients of such a row to its staging (RowDestination::kGradient, engine/plan.h), which
// all ranks can read. It publishes where, and how many of each entry, through an exchange. After this collective one of
// the ranks that have the row applies the gradients of all, in the engine's order: entry by entry, in rank order, from
// the value that all have read. After another collective everybody may read the row.
//
// cpu/shared_updates.h is the reference for cuda/shared_updates.h, which has the same bits.
#pragma once

#include <cstdint>

#include "comm/host_exchange.h"
#include "comm/replica_part.h"

namespace frugal {

// The arrays that a rank publishes for at most `rows` rows of a step: all their ids in ascending order, then kNoRow;
// and of the shared ones, where their gradients begin in its staging, in kTargetFloats, and how many each of `entries`
// has. Places are in numbers of 4 bytes from the part's beginning.
struct SharedPart {
  static constexpr std::int32_t kNoRow = ReplicaPart::kNoRow;
  static constexpr std::int64_t kTargetFloats = 4;  // whose multiples rows begin at

  std::int64_t rows;
  int entries = kMaxEntries;

  // Of `ranks` ranks that have row `id`, counted from 0 in rank order: the one that applies all gradients.
  FRUGAL_HOST_DEVICE static int turn(std::int64_t id, int ranks) { return static_cast<int>(id % ranks); }

  FRUGAL_HOST_DEVICE std::int64_t targets() const { return ReplicaPart::in_fours(rows); }
  FRUGAL_HOST_DEVICE std::int64_t counts(int entry) const { return ReplicaPart::in_fours(rows) * (2 + entry); }
  FRUGAL_HOST_DEVICE std::int64_t floats() const { return counts(entries); }
};

// The rows of a rank's step, as planned. used: how many there are; the others only pad.
struct SharedRows {
  const std::int64_t* ids;
  const RowDestination* leave;
  const std::int64_t* target;
  const std::int32_t* used;
  const std::int32_t* offset[kMaxEntries];  // of each entry's occurrences, (U + 1,)
};

// Where the values are: records as this rank's step has read them, host rows as they are to be, both `stride` floats
// apart with the state behind `dim` floats, and the gradients of all ranks, as far apart.
struct SharedMemory {
  std::int64_t dim, stride;
  const float* records;
  float* host_rows;
  const float* staging[kMostRanks];
};

}  // namespace frugal
