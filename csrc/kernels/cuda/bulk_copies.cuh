// Records that cross the bus by bulk copies (compute capability 9.0): a thread has one on its way at a time, through
// shared memory, and waits for nothing else. So a few blocks keep a bus busy, and neither registers nor the path of
// ordinary loads, which the computation needs, are taken by what waits for the bus.
#pragma once

#include <cstdint>

#include "kernels/cuda/launch.cuh"
#include "kernels/row_program.h"

namespace frugal::cuda {

inline constexpr int kBulkThreads = 64;
inline constexpr int kBulkBytes = 2048;  // of a piece: longer records travel in several
inline constexpr int kBulkShared = kBulkThreads * kBulkBytes;

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
__device__ inline std::uint32_t shared_address(const void* at) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(at));
}

// One thread's way there: from global memory, device's or host's, to shared memory, to global memory.
class BulkCopy {
 public:
  __device__ BulkCopy(char* place, std::uint64_t* barrier)
      : place_(shared_address(place)), barrier_(shared_address(barrier)) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier_) : "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __device__ void load(const char* from, std::uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier_), "r"(bytes) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(place_),
                 "l"(from), "r"(bytes), "r"(barrier_)
                 : "memory");
  }
  // Waits for what was loaded; the place is free again afterwards.
  __device__ void store(char* to, std::uint32_t bytes) {
    std::uint32_t done = 0;
    while (done == 0)
      asm volatile(
          "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
          : "=r"(done)
          : "r"(barrier_), "r"(phase_)
          : "memory");
    phase_ ^= 1;
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(place_), "r"(bytes)
                 : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
  }
  __device__ void finish() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }

 private:
  const std::uint32_t place_, barrier_;
  std::uint32_t phase_ = 0;
};
#endif

// Ends of one record's way; none where it does not travel.
struct RecordWay {
  const float* from = nullptr;
  float* to = nullptr;
};

// find(u) is the way of record u.
template <typename Find>
__device__ void copy_in_bulk(std::int64_t count, std::int64_t record_floats, Find find) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  extern __shared__ __align__(128) char places[];
  __shared__ std::uint64_t barriers[kBulkThreads];
  BulkCopy copy(places + threadIdx.x * kBulkBytes, &barriers[threadIdx.x]);
  const auto bytes = static_cast<std::uint32_t>(record_floats * sizeof(float));
  const std::uint32_t pieces = (bytes + kBulkBytes - 1) / kBulkBytes;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kBulkThreads;
  // Neighbouring records go to different blocks, so that all blocks have something to do to the end.
  for (std::int64_t unit = threadIdx.x * static_cast<std::int64_t>(gridDim.x) + blockIdx.x; unit < count * pieces;
       unit += step) {
    const RecordWay way = find(pieces == 1 ? unit : unit / pieces);
    if (way.from == nullptr) continue;
    const std::uint32_t begin = pieces == 1 ? 0 : static_cast<std::uint32_t>(unit % pieces) * kBulkBytes;
    const std::uint32_t length = bytes - begin < kBulkBytes ? bytes - begin : kBulkBytes;
    copy.load(reinterpret_cast<const char*>(way.from) + begin, length);
    copy.store(reinterpret_cast<char*>(way.to) + begin, length);
  }
  copy.finish();
#endif
}

__global__ void __launch_bounds__(kBulkThreads) gather_in_bulk(RowMemory memory, RowReads reads, float* records) {
  copy_in_bulk(reads.count, memory.record_floats(), [&](std::int64_t u) {
    return reads.wants(u) ? RecordWay{source_of(memory, reads, u), records + u * memory.stride} : RecordWay{};
  });
}

__global__ void __launch_bounds__(kBulkThreads) return_in_bulk(RowMemory memory, RowReturns returns) {
  copy_in_bulk(returns.count, memory.record_floats(), [&](std::int64_t u) {
    if (returns.leave[u] != Leave::kHostRow) return RecordWay{};
    return RecordWay{memory.cache + returns.target[u] * memory.stride,
                     memory.host_rows + returns.rows[u] * memory.stride};
  });
}

template <typename Kernel, typename... Arguments>
bool launch_in_bulk(Kernel kernel, int blocks, cudaStream_t stream, const std::string& name,
                    const Arguments&... arguments) {
  static const bool possible = compiled_for(kernel, 90);
  if (!possible) return false;
  static const cudaError_t reserved =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBulkShared);
  cuda_check(reserved, "reserving shared memory for " + name);
  kernel<<<blocks, kBulkThreads, kBulkShared, stream>>>(arguments...);
  cuda_check(cudaGetLastError(), "launching " + name);
  return true;
}

}  // namespace frugal::cuda
