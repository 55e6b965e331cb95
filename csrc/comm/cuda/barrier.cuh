// How the kernels of an exchange (exchange_kernels.h) say that this rank has entered a collective, and wait for the
// others.
#pragma once

#include "comm/cuda/exchange_kernels.h"
#include "comm/cuda/system_words.cuh"

namespace frugal::cuda {

inline constexpr int kSpins = 256;  // between two looks at whether somebody has failed

__device__ inline std::uint64_t next_number(const DeviceExchange& x) {
  return *static_cast<volatile std::uint64_t*>(x.posted) + 1;
}

// By the first threads of a block, after all that this rank publishes has been written, in kernels before or by blocks
// that is_last_block has heard of: it has come to a number.
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

// By all blocks of a kernel: waits until all ranks have entered the next collective. The block that `posts` says so for
// this rank. False if somebody has failed: results are worthless then. Few blocks: hundreds that look at a word slow
// down other kernels, and so the rank that is waited for next. Where words lie in host memory only the first
// block asks, and tells the others: each look is a way over the bus, and looks at one word follow each other.
__device__ inline bool barrier(const DeviceExchange& x, bool posts) {
  const std::uint64_t number = next_number(x);
  if (posts) tell(x, number);
  if (x.near) return !hear(x, number);
  const bool is_first = blockIdx.x == 0 && load_acquire(x.entered) / 2 < number;  // no block asks twice
  bool failed = is_first && hear(x, number);
  if (threadIdx.x == 0 && is_first) store_release(x.entered, 2 * number + failed);
  if (threadIdx.x == 0 && !is_first) {
    std::uint64_t entered;
    while ((entered = load_acquire(x.entered)) / 2 < number) {
    }
    failed = entered % 2;
  }
  return !__syncthreads_or(failed);
}

// By all blocks after barrier, in the end: the collective is done.
__device__ inline void part_ways(const DeviceExchange& x) {
  const std::uint64_t number = next_number(x);  // before any block can say that all are done
  __syncthreads();
  if (threadIdx.x == 0 && atomicInc(x.blocks_done, gridDim.x - 1) == gridDim.x - 1) *x.posted = number;
}

}  // namespace frugal::cuda
