#include "rows/cuda/summed_update.h"

#include <algorithm>
#include <string>

#include "base/device/cuda_check.h"
#include "rows/cuda/device_warp.cuh"
#include "table/mean_square.h"

namespace frugal::cuda {
namespace {

constexpr int kThreads = 256, kLanes = 32, kWarps = kThreads / kLanes;
constexpr std::int64_t kMostBlocks = 1 << 16;  // the loop covers the rest

__global__ void __launch_bounds__(kThreads) update_from_sums_kernel(RowMemory memory, RowWrites writes,
                                                                    const float* records, const float* sums,
                                                                    UpdateRule rule, int power) {
  const int lane = threadIdx.x % kLanes;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kWarps;
  for (std::int64_t u = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / kLanes; u < writes.count;
       u += step)
    leave_with_sum<DeviceWarp, kLanes>(memory, writes.leave[u], writes.target[u], records + u * memory.stride,
                                       sums + u * memory.dim, rule, power, lane);
}

}  // namespace

void update_from_sums(const RowMemory& memory, const RowWrites& writes, const float* records, const float* sums,
                      const UpdateRule& rule, const Launch& launch) {
  if (writes.count == 0) return;
  const auto blocks = static_cast<unsigned>(std::min((writes.count + kWarps - 1) / kWarps, kMostBlocks));
  update_from_sums_kernel<<<blocks, kThreads, 0, reinterpret_cast<cudaStream_t>(launch.stream)>>>(
      memory, writes, records, sums, rule, sum_level_power(memory.dim / kSumPartials));
  cuda_check(cudaGetLastError(), "launching the update of " + std::to_string(writes.count) + " rows");
}

}  // namespace frugal::cuda
