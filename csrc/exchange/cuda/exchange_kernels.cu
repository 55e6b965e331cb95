#include <algorithm>

#include "device/cuda_check.h"
#include "exchange/cuda/exchange_kernels.h"

namespace frugal::cuda {
namespace {

constexpr int kThreads = 512, kBlocks = 64;  // enough loads under way to fill a link
constexpr int kAhead = 4;                    // words that a thread asks for before it adds them
constexpr int kSpins = 256;                  // between two looks at whether somebody has failed

__device__ std::uint64_t load_acquire(const std::uint64_t* from) {
  std::uint64_t value;
  asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(from) : "memory");
  return value;
}

__device__ void store_release(std::uint64_t* to, std::uint64_t value) {
  asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(to), "l"(value) : "memory");
}

__global__ void __launch_bounds__(kThreads) send_kernel(const float4* from, float4* to, std::int64_t words) {
  for (std::int64_t i = blockIdx.x * static_cast<std::int64_t>(kThreads) + threadIdx.x; i < words;
       i += static_cast<std::int64_t>(gridDim.x) * kThreads)
    to[i] = from[i];
}

// By a block: waits until all have posted exchange `number`, which the first block does for this rank. False if
// somebody has failed.
__device__ bool meet(const DeviceExchange& x, std::uint64_t number) {
  const int other = static_cast<int>(threadIdx.x);
  bool failed = false;
  if (other < x.ranks && other != x.rank) {
    if (blockIdx.x == 0) {
      __threadfence_system();  // what earlier kernels wrote comes before the word
      store_release(x.tell[other], number);
    }
    for (int spins = 1; !failed && load_acquire(x.hear[other]) < number; ++spins)
      failed = spins % kSpins == 0 && *static_cast<const volatile std::uint32_t*>(x.failed);
  }
  return !__syncthreads_or(failed);
}

__device__ std::uint64_t next_number(const DeviceExchange& x) {
  return *static_cast<volatile std::uint64_t*>(x.posted) + 1;
}

// One block, where words lie in host memory: many that look there would be in the way of the parts.
__global__ void __launch_bounds__(kMostRanks) meet_kernel(DeviceExchange x) {
  const std::uint64_t number = next_number(x);
  meet(x, number);
  if (threadIdx.x == 0) *x.posted = number;
}

template <bool kMeets>
__global__ void __launch_bounds__(kThreads) sum_kernel(DeviceExchange x, std::int64_t first, std::int64_t words,
                                                       float divisor, float4* to) {
  const std::uint64_t number = kMeets ? next_number(x) : 0;
  if (kMeets && !meet(x, number)) words = 0;  // the memory of a rank that has ended may be gone
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kThreads;
  for (std::int64_t i = blockIdx.x * static_cast<std::int64_t>(kThreads) + threadIdx.x; i < words; i += kAhead * step) {
    float4 sum[kAhead];
    for (int rank = 0; rank < x.ranks; ++rank) {
      const float4* part = reinterpret_cast<const float4*>(x.part[rank] + first);
      float4 value[kAhead];
#pragma unroll
      for (int k = 0; k < kAhead; ++k) {
        const float4* from = part + (i + k * step < words ? i + k * step : i);
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
  if (!kMeets) return;
  __syncthreads();
  if (threadIdx.x == 0 && atomicInc(x.blocks_done, gridDim.x - 1) == gridDim.x - 1) *x.posted = number;
}

}  // namespace

void exchange_sum(const DeviceExchange& exchange, std::int64_t first, std::int64_t count, float divisor, float* to,
                  std::uintptr_t stream_address) {
  const auto stream = reinterpret_cast<cudaStream_t>(stream_address);
  const std::int64_t words = count / 4;
  const auto blocks = static_cast<unsigned>(std::clamp<std::int64_t>((words + kThreads - 1) / kThreads, 1, kBlocks));
  if (exchange.outbox) {
    send_kernel<<<blocks, kThreads, 0, stream>>>(reinterpret_cast<const float4*>(exchange.own + first),
                                                 reinterpret_cast<float4*>(exchange.outbox + first), words);
    meet_kernel<<<1, kMostRanks, 0, stream>>>(exchange);
    sum_kernel<false><<<blocks, kThreads, 0, stream>>>(exchange, first, words, divisor, reinterpret_cast<float4*>(to));
  } else {
    sum_kernel<true><<<blocks, kThreads, 0, stream>>>(exchange, first, words, divisor, reinterpret_cast<float4*>(to));
  }
  cuda_check(cudaGetLastError(), "launching an exchange between devices");
}

void put_part(const DeviceExchange& exchange, std::int64_t first, std::int64_t count, const float* from,
              std::uintptr_t stream) {
  cuda_check(cudaMemcpyAsync(exchange.own + first, from, count * sizeof(float), cudaMemcpyDeviceToDevice,
                             reinterpret_cast<cudaStream_t>(stream)),
             "copying a part to the exchange");
}

}  // namespace frugal::cuda
