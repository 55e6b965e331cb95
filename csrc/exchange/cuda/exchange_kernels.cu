#include "exchange/cuda/exchange_kernels.h"

#include <algorithm>

#include "device/cuda_check.h"
#include "exchange/cuda/meeting.cuh"

namespace frugal::cuda {
namespace {

constexpr int kThreads = 512, kBlocks = 64;  // enough loads under way to fill a link
constexpr int kAhead = 4;                    // words that a thread asks for before it adds them

__global__ void __launch_bounds__(kMostRanks) meet_kernel(const __grid_constant__ DeviceExchange x) {
  meet(x, true);
  part_ways(x);
}

// By a block: its words of own + first go to the mirrors. Whether it is the last block of the kernel to be done.
__device__ bool send(const DeviceExchange& x, std::int64_t first, std::int64_t words) {
  __shared__ bool is_last;
  const float4* from = reinterpret_cast<const float4*>(x.mirrors.own + first);
  for (std::int64_t i = blockIdx.x * static_cast<std::int64_t>(kThreads) + threadIdx.x; i < words;
       i += static_cast<std::int64_t>(gridDim.x) * kThreads)
    for (int m = 0; m < x.mirrors.count; ++m) reinterpret_cast<float4*>(x.mirrors.at[m] + first)[i] = from[i];
  __threadfence_system();
  __syncthreads();
  if (threadIdx.x == 0) is_last = atomicInc(x.blocks_sent, gridDim.x - 1) == gridDim.x - 1;
  __syncthreads();
  return is_last;
}

// Adds up parts. kMeets: sends this rank's and meets the others first; all blocks must have room on the device at once.
template <bool kMeets>
__global__ void __launch_bounds__(kThreads)
    sum_kernel(const __grid_constant__ DeviceExchange x, std::int64_t first, std::int64_t words, float divisor,
               float4* to) {
  if (kMeets && !meet(x, send(x, first, words))) words = 0;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kThreads;
  for (std::int64_t i = blockIdx.x * static_cast<std::int64_t>(kThreads) + threadIdx.x; i < words; i += kAhead * step) {
    float4 sum[kAhead];
    for (int rank = 0; rank < x.ranks; ++rank) {
      const float* part = x.part[rank] + first;
      float4 value[kAhead];
#pragma unroll
      for (int k = 0; k < kAhead; ++k) {
        const float4* from = reinterpret_cast<const float4*>(part) + (i + k * step < words ? i + k * step : i);
        value[k] = kMeets ? __ldcv(from) : *from;  // of host memory whole lines, as plain loads ask for
      }
#pragma unroll
      for (int k = 0; k < kAhead; ++k) {
        if (rank == 0) {
          sum[k] = value[k];
        } else {
          sum[k].x += value[k].x, sum[k].y += value[k].y, sum[k].z += value[k].z, sum[k].w += value[k].w;
        }
      }
    }
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      if (divisor != 1.0f) sum[k].x /= divisor, sum[k].y /= divisor, sum[k].z /= divisor, sum[k].w /= divisor;
      if (i + k * step < words) to[i + k * step] = sum[k];
    }
  }
  if (kMeets) part_ways(x);
}

unsigned blocks_of(std::int64_t words) {
  return static_cast<unsigned>(std::clamp<std::int64_t>((words + kThreads - 1) / kThreads, 1, kBlocks));
}

}  // namespace

void exchange_sum(const DeviceExchange& exchange, std::int64_t first, std::int64_t count, float divisor, float* to,
                  std::uintptr_t stream_address) {
  const auto stream = reinterpret_cast<cudaStream_t>(stream_address);
  const std::int64_t words = count / 4;
  sum_kernel<true><<<blocks_of(words), kThreads, 0, stream>>>(exchange, first, words, divisor,
                                                              reinterpret_cast<float4*>(to));
  cuda_check(cudaGetLastError(), "launching an exchange between devices");
}

void meet(const DeviceExchange& exchange, std::uintptr_t stream) {
  meet_kernel<<<1, kMostRanks, 0, reinterpret_cast<cudaStream_t>(stream)>>>(exchange);
  cuda_check(cudaGetLastError(), "launching a meeting of devices");
}

void sum_parts(const DeviceExchange& exchange, std::int64_t count, float* to, std::uintptr_t stream_address) {
  const auto stream = reinterpret_cast<cudaStream_t>(stream_address);
  const std::int64_t words = count / 4;
  sum_kernel<false><<<blocks_of(words), kThreads, 0, stream>>>(exchange, 0, words, 1.0f,
                                                               reinterpret_cast<float4*>(to));
  cuda_check(cudaGetLastError(), "launching an exchange between devices");
}

}  // namespace frugal::cuda
