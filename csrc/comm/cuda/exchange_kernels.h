// The exchange (comm/host_exchange.h) on devices, one for each rank: the same rules, inside a stream or a graph.
//
// A device has room for the parts of all ranks in its own memory: each writes there, over NVLink or PCIe, what this one
// reads, where its kernels make it, and says so in a word next to it. Where devices do not reach each other, ranks
// write to registered host memory, and each fetches from there what it reads. A kernel that waits holds its
// multiprocessors, but what it waits for has been submitted before it, so devices that submit the same collectives
// never wait for ever.
#pragma once

#include <cstdint>

#include "comm/host_exchange.h"
#include "comm/rank_words.h"

namespace frugal::cuda {

// Where other ranks read what this one writes from `own` on; empty without other ranks.
struct Mirrors {
  int count = 0;
  float* own = nullptr;
  float* at[kMostRanks - 1] = {};
};

// A region of which each rank has a part that all others read.
struct RankParts {
  const float* of[kMostRanks];  // where this rank reads that of each
  float* here[kMostRanks];      // the same in this device's memory; what lies elsewhere can be fetched to there
  Mirrors own;
};

// Addresses as this device sees them. The words count collectives.
struct DeviceExchange : RankWords {
  bool near;  // whether other ranks write into this device's memory
  // Raw scores. to: where the owner of a share reads, or fetches from, what this rank has of it; part: of each rank, in
  // this device's memory, where its own share of all is read; far_part: where those are fetched from, unless near.
  float* to[kMostRanks];
  float* part[kMostRanks];
  const float* far_part[kMostRanks];
  Mirrors weights;  // fetched from the mirror, of which there is one for all ranks, unless near
  RankParts squares;  // mean squares
  RankParts scores;   // the region of raw scores, for collectives without shares (replicas)
  std::uint64_t* posted;                  // in device memory: how many collectives this rank has done
  std::uint64_t* entered;                 // there, unless near: twice the number of the last one that all have entered,
                                          // and one more if somebody has failed
  unsigned *blocks_sent, *blocks_done;    // in device memory: 0 between kernels
};

// Enqueues a barrier: later work on the stream reads what all ranks have written before theirs. Throws DeviceError if
// the launch fails.
void barrier(const DeviceExchange& exchange, std::uintptr_t stream);

// Enqueues the collective over mean squares where ranks are not near: to[i] = (sum over ranks of squares[i]) / ranks
// for i < count, a multiple of 4. This rank's have been written to squares.own by earlier work on the stream. Near
// ranks write to the mirrors, too, only call `barrier`, and whoever reads all parts takes the means
// (EntryGradients::square).
void all_reduce_mean(const DeviceExchange& exchange, std::int64_t count, float* to, std::uintptr_t stream);

}  // namespace frugal::cuda
