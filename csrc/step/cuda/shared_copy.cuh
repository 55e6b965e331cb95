// Copies of rows to shared memory that are all under way before one is waited for.
#pragma once

#include <cuda_pipeline.h>

#include <cstdint>

namespace frugal::cuda {

// By `kThreadsOf` neighbouring threads, whose number divides a block's: n floats, 16 bytes at a time where they allow.
template <int kThreadsOf>
__device__ void start_copy(float* to, const float* from, std::int64_t n) {
  constexpr int kWord = 4;  // floats
  const int thread = threadIdx.x % kThreadsOf;
  const auto places = reinterpret_cast<std::uintptr_t>(to) | reinterpret_cast<std::uintptr_t>(from);
  if (places % (kWord * sizeof(float)) == 0 && n % kWord == 0) {
#pragma unroll 4
    for (std::int64_t i = kWord * thread; i < n; i += kWord * kThreadsOf)
      __pipeline_memcpy_async(to + i, from + i, kWord * sizeof(float));
    return;
  }
#pragma unroll 4
  for (std::int64_t i = thread; i < n; i += kThreadsOf) __pipeline_memcpy_async(to + i, from + i, sizeof(float));
}

// Of a block, all of which shares what was copied.
__device__ inline void finish_copies() {
  __pipeline_commit();
  __pipeline_wait_prior(0);
  __syncthreads();
}

// lanes: those of the warp that share what was copied.
__device__ inline void finish_copies(unsigned lanes) {
  __pipeline_commit();
  __pipeline_wait_prior(0);
  __syncwarp(lanes);
}

}  // namespace frugal::cuda
