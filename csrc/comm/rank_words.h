// Words by which a rank says how far it is, and waits for the others to be as far: numbers that only grow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "comm/host_exchange.h"
#include "comm/share.h"

namespace frugal {

// Addresses as this rank sees them. A device's kernels have the same two calls (cuda/barrier.cuh).
struct RankWords {
  int rank, ranks;
  std::uint64_t* tell[kMostRanks];        // where this rank's number is read by each of the others
  const std::uint64_t* hear[kMostRanks];  // and theirs by this one
  const std::uint32_t* failed;            // in host memory: not 0 once somebody has failed
};

// Bytes of the words of a kind that the other ranks write into a rank's buffer, a line for each.
inline constexpr std::size_t kRankWordBytes = kMostRanks * kExchangeLine;

// Words of one kind. buffers: of all ranks, as `rank` addresses them; each begins with kRankWordBytes for every kind.
RankWords rank_words(int rank, const std::vector<char*>& buffers, const std::uint32_t* failed, int kind = 0);

namespace cpu {

// This rank has come to `number`: what it has written before comes before that.
void tell(const RankWords& words, std::uint64_t number);

// Waits until all others have come to `number`. Whether somebody has failed: nobody waits any more then.
bool hear(const RankWords& words, std::uint64_t number);

}  // namespace cpu
}  // namespace frugal
