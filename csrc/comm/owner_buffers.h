// Where the words, slots and records of all ranks lie, in the buffers that they reach of each other.
//
// A buffer begins with the words that the other ranks write, a line for each rank: of prefetches, then of computations.
// Behind them are the slots of its rank, and behind those its records, at the same place in each buffer.
#pragma once

#include <cstddef>
#include <vector>

#include "comm/owner_transfer.h"

namespace frugal {

inline constexpr std::size_t kOwnerWordBytes = 2 * kRankWordBytes;

// part: what one rank has of a row, and where the host rows are. buffers: of all ranks, as `rank` addresses them.
// failed: as RankWords have it.
OwnerTransferRows owner_transfer_rows(const RowMemory& part, int rank, const std::vector<char*>& buffers,
                                      const std::uint32_t* failed);

// Of a step, from where this rank's are in its own buffer.
OwnerTransferRecords owner_transfer_records(int rank, const std::vector<char*>& buffers, const float* own);

}  // namespace frugal
