// How the kernels of an exchange (exchange_kernels.h) say that this rank has come to a meeting, and wait for the others.
#pragma once

#include "exchange/cuda/exchange_kernels.h"
#include "exchange/cuda/system_words.cuh"

namespace frugal::cuda {

inline constexpr int kSpins = 256;  // between two looks at whether somebody has failed
inline constexpr unsigned kNanosecondsBetweenLooks = 40;  // of each of many blocks

__device__ inline std::uint64_t next_number(const DeviceExchange& x) {
  return *static_cast<volatile std::uint64_t*>(x.posted) + 1;
}

// By the first threads of a block, after all that this rank puts out has been written, in kernels before or by blocks that
// is_last_block has heard of: it has come to a number.
__device__ inline void tell(const RankWords& x, std::uint64_t number) {
  const int other = static_cast<int>(threadIdx.x);
  if (other >= x.ranks || other == x.rank) return;
  store_release(x.tell[other], number);  // what this device wrote before comes before the word
}

// By a block: asks the words of all ranks until these have come to the number. Whether somebody has failed.
__device__ inline bool hear(const RankWords& x, std::uint64_t number) {
  const int other = static_cast<int>(threadIdx.x);
  bool failed = false;
  if (other < x.ranks && other != x.rank)
    for (int spins = 1; !failed && load_acquire(x.hear[other]) < number; ++spins)
      failed = spins % kSpins == 0 && *static_cast<const volatile std::uint32_t*>(x.failed);
  return __syncthreads_or(failed);
}

// By all blocks of a kernel: waits until all ranks have come to the next meeting. The block that `posts` says so for
// this rank. False if somebody has failed: results are worthless then. Few blocks: hundreds that look at a word slow
// down what runs beside them, and so the rank that is waited for next. Where words lie in host memory only the first
// block asks, and tells the others: each look is a way over the bus, and looks at one word follow each other.
__device__ inline bool meet(const DeviceExchange& x, bool posts) {
  const std::uint64_t number = next_number(x);
  if (posts) tell(x, number);
  if (x.near) return !hear(x, number);
  const bool is_first = blockIdx.x == 0 && load_acquire(x.met) / 2 < number;  // no block asks twice for a meeting
  bool failed = is_first && hear(x, number);
  if (threadIdx.x == 0 && is_first) store_release(x.met, 2 * number + failed);
  if (threadIdx.x == 0 && !is_first) {
    std::uint64_t met;
    while ((met = load_acquire(x.met)) / 2 < number) {
    }
    failed = met % 2;
  }
  return !__syncthreads_or(failed);
}

// By all blocks that have met, in the end: the meeting has been.
__device__ inline void part_ways(const DeviceExchange& x) {
  const std::uint64_t number = next_number(x);  // before any block can say that all are done
  __syncthreads();
  if (threadIdx.x == 0 && atomicInc(x.blocks_done, gridDim.x - 1) == gridDim.x - 1) *x.posted = number;
}

// By all blocks of a kernel: `meetings` are held by kernels behind it.
__device__ inline void count_meetings(const HeldMeeting& x, int meetings) {
  if (x.posted != nullptr && blockIdx.x == 0 && threadIdx.x == 0) *x.posted += meetings;
}

// By all blocks of a kernel, of kWords threads at least, before they read what others have written: waits until all ranks have come to the meeting,
// behind which `later` more have been counted. If somebody has failed, nobody uses what follows.
__device__ inline void hold(const HeldMeeting& x, int later) {
  if (x.posted == nullptr) return;
  const std::uint64_t number = *x.posted - later;
  constexpr std::int64_t kLine = kExchangeLine / sizeof(std::uint64_t);
  if (blockIdx.x == 0 && threadIdx.x < HeldMeeting::kWords) {
    __threadfence_system();  // what kernels before have written comes before the words
    for (int other = 0; other < x.ranks; ++other)
      if (other != x.rank) *static_cast<volatile std::uint64_t*>(x.tell[other] + threadIdx.x * kLine) = number;
  }
  const int other = static_cast<int>(threadIdx.x);
  if (other < x.ranks && other != x.rank) {
    const std::uint64_t* const word = x.hear[other] + blockIdx.x % HeldMeeting::kWords * kLine;
    bool failed = false;
    for (int spins = 1; !failed && *static_cast<const volatile std::uint64_t*>(word) < number; ++spins) {
      __nanosleep(kNanosecondsBetweenLooks);
      failed = spins % kSpins == 0 && *static_cast<const volatile std::uint32_t*>(x.failed);
    }
    load_acquire(word);  // what its rank wrote before comes before what this block reads
  }
  __syncthreads();
}

}  // namespace frugal::cuda
