// The exchange (exchange/host_exchange.h) on devices, one for each rank: the same rules, inside a stream or a graph.
//
// A device has room for the parts of all ranks in its own memory: each writes there, over NVLink or PCIe, what this one
// reads, where its kernels make it, and says so in a word beside it. Where devices do not reach each other, ranks write
// to registered host memory, and each fetches from there what it reads. A kernel that waits holds its multiprocessors,
// but what it waits for has been submitted before it, so devices that submit the same meetings always get on.
//
// A meeting is a kernel of one block, or that kernel's affair which reads what others have written. All blocks of such a
// one wait, and nothing else may have room on the device then: only where no rank waits for what another does beside its
// steps, as rows on their way to the host.
#pragma once

#include <cstdint>

#include "exchange/host_exchange.h"
#include "exchange/rank_words.h"

namespace frugal::cuda {

// Where other ranks read what this one writes from `own` on; empty without other ranks.
struct Mirrors {
  int count = 0;
  float* own = nullptr;
  float* at[kMostRanks - 1] = {};
};

// A region of which each rank has a part that all others read.
struct RankParts {
  const float* of[kMostRanks];  // where this rank reads that of each: at equal distances, where ranks are near
  float* here[kMostRanks];      // the same in this device's memory; what lies elsewhere can be fetched to there
  Mirrors own;
};

// A meeting that a kernel holds itself (meeting.cuh), once an earlier one has counted it: it takes no launch of its own.
// Blocks ask kWords different words, a line each: stores of other devices are starved by hundreds that ask for one.
struct HeldMeeting {
  static constexpr int kWords = 64;
  int rank, ranks;
  std::uint64_t* tell[kMostRanks];        // the first of the words by which the others read this rank's number
  const std::uint64_t* hear[kMostRanks];  // and of theirs
  const std::uint32_t* failed;            // as RankWords has it
  std::uint64_t* posted;                  // as DeviceExchange has it; null: the kernel holds none
};

// Addresses as this device sees them. The words count meetings.
struct DeviceExchange : RankWords {
  bool near;  // whether other ranks write into this device's memory
  // Raw scores. to: where the owner of a share reads, or fetches from, what this rank has of it; part: of each rank, in
  // this device's memory, where its own share of all is read; far_part: where those are fetched from, unless near.
  float* to[kMostRanks];
  float* part[kMostRanks];
  const float* far_part[kMostRanks];
  Mirrors weights;  // fetched from the mirror, of which there is one for all ranks, unless near
  RankParts squares;  // mean squares
  RankParts scores;   // the region of raw scores, for meetings that have no shares (replicas)
  std::uint64_t* posted;                  // in device memory: how many meetings this rank has been through
  std::uint64_t* met;                     // there, unless near: twice the number of the last one that all have come to,
                                          // and one more if somebody has failed
  unsigned *blocks_sent, *blocks_done;    // in device memory: 0 between kernels
  HeldMeeting in_step;                    // of the kernels of a step that hold its meetings themselves

  bool held() const { return in_step.posted != nullptr; }
};

// Enqueues a meeting: later work on the stream reads what all ranks have written before theirs. Throws DeviceError if
// the launch fails.
void meet(const DeviceExchange& exchange, std::uintptr_t stream);

// The same of a meeting of a step, which the next kernel on the stream holds where kernels do.
void meet_in_step(const DeviceExchange& exchange, std::uintptr_t stream);

// Enqueues the meeting over mean squares: to[i] = (sum over ranks of squares[i]) / ranks for i < count, a multiple of
// 4. This rank's have been written to squares.own by earlier work on the stream and, where other ranks are near, to its
// mirrors, too; else they are sent first.
void average(const DeviceExchange& exchange, std::int64_t count, float* to, std::uintptr_t stream);

}  // namespace frugal::cuda
