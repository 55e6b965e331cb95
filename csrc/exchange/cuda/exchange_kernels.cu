#include "exchange/cuda/exchange_kernels.h"

#include <algorithm>

#include "device/cuda_check.h"

namespace frugal::cuda {
namespace {

constexpr int kThreads = 512, kBlocks = 64;
constexpr int kSpins = 256;  // between two looks at whether somebody has failed

__device__ std::uint64_t load_acquire(const std::uint64_t* from) {
  std::uint64_t value;
  asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(from) : "memory");
  return value;
}

__device__ void store_release(std::uint64_t* to, std::uint64_t value) {
  asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(to), "l"(value) : "memory");
}

__device__ std::uint64_t next_number(const DeviceExchange& x) {
  return *static_cast<volatile std::uint64_t*>(x.posted) + 1;
}

// By all blocks of a kernel: waits until all ranks have come to the next meeting. The block that `posts` says so for
// this rank. False if somebody has failed: results are worthless then. Few blocks: hundreds that look at a word slow
// down what runs beside them, and so the rank that is waited for next.
__device__ bool meet(const DeviceExchange& x, bool posts) {
  const std::uint64_t number = next_number(x);
  const int other = static_cast<int>(threadIdx.x);
  bool failed = false;
  if (other < x.ranks && other != x.rank) {
    if (posts) {
      __threadfence_system();  // what this device wrote before comes before the word
      store_release(x.tell[other], number);
    }
    for (int spins = 1; !failed && load_acquire(x.hear[other]) < number; ++spins)
      failed = spins % kSpins == 0 && *static_cast<const volatile std::uint32_t*>(x.failed);
  }
  return !__syncthreads_or(failed);
}

// By all blocks that have met, in the end: the meeting has been.
__device__ void part_ways(const DeviceExchange& x) {
  const std::uint64_t number = next_number(x);  // before any block can say that all are done
  __syncthreads();
  if (threadIdx.x == 0 && atomicInc(x.blocks_done, gridDim.x - 1) == gridDim.x - 1) *x.posted = number;
}

__global__ void __launch_bounds__(kMostRanks) meet_kernel(const __grid_constant__ DeviceExchange x) {
  meet(x, true);
  part_ways(x);
}

// By a block: its words of this rank's mean squares go to the mirrors. Whether it is the last block of the kernel to be
// done.
__device__ bool send(const DeviceExchange& x, std::int64_t words) {
  __shared__ bool is_last;
  const float4* from = reinterpret_cast<const float4*>(x.own_squares.own);
  for (std::int64_t i = blockIdx.x * static_cast<std::int64_t>(kThreads) + threadIdx.x; i < words;
       i += static_cast<std::int64_t>(gridDim.x) * kThreads)
    for (int m = 0; m < x.own_squares.count; ++m) reinterpret_cast<float4*>(x.own_squares.at[m])[i] = from[i];
  __threadfence_system();
  __syncthreads();
  if (threadIdx.x == 0) is_last = atomicInc(x.blocks_sent, gridDim.x - 1) == gridDim.x - 1;
  __syncthreads();
  return is_last;
}

// All blocks must have room on the device at once.
__global__ void __launch_bounds__(kThreads)
    average_kernel(const __grid_constant__ DeviceExchange x, std::int64_t words, float4* to) {
  if (!meet(x, send(x, words))) words = 0;
  const auto divisor = static_cast<float>(x.ranks);
  for (std::int64_t i = blockIdx.x * static_cast<std::int64_t>(kThreads) + threadIdx.x; i < words;
       i += static_cast<std::int64_t>(gridDim.x) * kThreads) {
    float4 part[kMostRanks];
#pragma unroll
    for (int rank = 0; rank < kMostRanks; ++rank)
      if (rank < x.ranks) part[rank] = __ldcv(reinterpret_cast<const float4*>(x.squares[rank]) + i);
    float4 sum = part[0];
#pragma unroll
    for (int rank = 1; rank < kMostRanks; ++rank)
      if (rank < x.ranks)
        sum.x += part[rank].x, sum.y += part[rank].y, sum.z += part[rank].z, sum.w += part[rank].w;
    to[i] = {sum.x / divisor, sum.y / divisor, sum.z / divisor, sum.w / divisor};
  }
  part_ways(x);
}

unsigned blocks_of(std::int64_t words) {
  return static_cast<unsigned>(std::clamp<std::int64_t>((words + kThreads - 1) / kThreads, 1, kBlocks));
}

}  // namespace

void meet(const DeviceExchange& exchange, std::uintptr_t stream) {
  meet_kernel<<<1, kMostRanks, 0, reinterpret_cast<cudaStream_t>(stream)>>>(exchange);
  cuda_check(cudaGetLastError(), "launching a meeting of devices");
}

void average(const DeviceExchange& exchange, std::int64_t count, float* to, std::uintptr_t stream) {
  const std::int64_t words = count / 4;
  average_kernel<<<blocks_of(words), kThreads, 0, reinterpret_cast<cudaStream_t>(stream)>>>(
      exchange, words, reinterpret_cast<float4*>(to));
  cuda_check(cudaGetLastError(), "launching an exchange of mean squares");
}

}  // namespace frugal::cuda
