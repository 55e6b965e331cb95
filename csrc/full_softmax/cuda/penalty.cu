#include "full_softmax/cuda/penalty.h"

#include "base/device/cuda_check.h"

namespace frugal::cuda {
namespace {

constexpr int kThreads = 256, kLanes = 32, kWarps = kThreads / kLanes;

// A block for a row.
__global__ void __launch_bounds__(kThreads) penalty_kernel(RowPenalty p) {
  __shared__ double of_warp[kWarps];
  const std::int64_t u = blockIdx.x;
  const float factor = p.share * static_cast<float>(p.times[u]);
  double sum = 0.0;
#pragma unroll 4
  for (std::int64_t k = threadIdx.x; k < numbers_of(p); k += kThreads)
    sum += penalize_number(p, p.rows + u * p.dim, p.slopes + u * p.dim, k, factor);
  for (int half = kLanes / 2; half > 0; half /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, half);
  if (threadIdx.x % kLanes == 0) of_warp[threadIdx.x / kLanes] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int warp = 1; warp < kWarps; ++warp) sum += of_warp[warp];
  p.amounts[u] = p.times[u] * sum;
}

}  // namespace

void penalize_rows(const RowPenalty& penalty, std::uintptr_t number) {
  if (penalty.count == 0) return;
  const auto stream = reinterpret_cast<cudaStream_t>(number);
  penalty_kernel<<<static_cast<unsigned>(penalty.count), kThreads, 0, stream>>>(penalty);
  cuda_check(cudaGetLastError(), "launching the penalty of rows");
}

}  // namespace frugal::cuda
