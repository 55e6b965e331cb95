#include "comm/cuda/exchange_kernels.h"

#include <algorithm>

#include "base/device/cuda_check.h"
#include "base/device/last_block.cuh"
#include "comm/cuda/barrier.cuh"

namespace frugal::cuda {
namespace {

constexpr int kThreads = 512, kBlocks = 64;

__global__ void __launch_bounds__(kMostRanks) barrier_kernel(const __grid_constant__ DeviceExchange x) {
  barrier(x, true);
  part_ways(x);
}

// By a block: its words of this rank's mean squares go to the mirrors. Whether it is the last block of the kernel to be
// done.
__device__ bool send(const DeviceExchange& x, std::int64_t words) {
  const float4* from = reinterpret_cast<const float4*>(x.squares.own.own);
  for (std::int64_t i = blockIdx.x * static_cast<std::int64_t>(kThreads) + threadIdx.x; i < words;
       i += static_cast<std::int64_t>(gridDim.x) * kThreads)
    for (int m = 0; m < x.squares.own.count; ++m) reinterpret_cast<float4*>(x.squares.own.at[m])[i] = from[i];
  return is_last_block(x.blocks_sent);
}

// All blocks must have room on the device at once.
__global__ void __launch_bounds__(kThreads)
    all_reduce_mean_kernel(const __grid_constant__ DeviceExchange x, std::int64_t words, float4* to) {
  if (!barrier(x, send(x, words))) words = 0;
  const auto divisor = static_cast<float>(x.ranks);
  for (std::int64_t i = blockIdx.x * static_cast<std::int64_t>(kThreads) + threadIdx.x; i < words;
       i += static_cast<std::int64_t>(gridDim.x) * kThreads) {
    float4 part[kMostRanks];
#pragma unroll
    for (int rank = 0; rank < kMostRanks; ++rank)
      if (rank < x.ranks) part[rank] = __ldcv(reinterpret_cast<const float4*>(x.squares.of[rank]) + i);
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

void barrier(const DeviceExchange& exchange, std::uintptr_t stream) {
  barrier_kernel<<<1, kMostRanks, 0, reinterpret_cast<cudaStream_t>(stream)>>>(exchange);
  cuda_check(cudaGetLastError(), "launching a collective of devices");
}

void all_reduce_mean(const DeviceExchange& exchange, std::int64_t count, float* to, std::uintptr_t stream) {
  const std::int64_t words = count / 4;
  all_reduce_mean_kernel<<<blocks_of(words), kThreads, 0, reinterpret_cast<cudaStream_t>(stream)>>>(
      exchange, words, reinterpret_cast<float4*>(to));
  cuda_check(cudaGetLastError(), "launching an exchange of mean squares");
}

}  // namespace frugal::cuda
