#include "kernels/mean_squares.h"

#include "device/cuda_check.h"
#include "kernels/cuda/device_warp.cuh"
#include "kernels/row_program.h"
#include "optim/mean_square.h"

namespace frugal::cuda {
namespace {

constexpr int kThreads = 256, kLanes = 32, kWarps = kThreads / kLanes;

struct Powers {
  int of_block[GradientBlocks::kMost];  // sum_level_power
};

// A warp for each row.
__global__ void __launch_bounds__(kThreads) mean_squares_kernel(GradientBlocks gradients, Powers powers, float* means) {
  std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / kLanes;
  float* to = means + row;
#pragma unroll
  for (int b = 0; b < GradientBlocks::kMost; ++b) {
    if (b == gradients.blocks) return;
    const GradientRows& x = gradients.block[b];
    if (row < x.rows) {
      const float* const gradient[1] = {x.values + row * x.stride};
      float mean[1];
      warp_mean_squares<DeviceWarp, 1>(gradient, x.dim, powers.of_block[b], mean);
      if (threadIdx.x % kLanes == 0) *to = mean[0];
      return;
    }
    row -= x.rows;
  }
}

}  // namespace

void mean_squares(const GradientBlocks& gradients, float* means, std::uintptr_t stream_address) {
  const auto stream = reinterpret_cast<cudaStream_t>(stream_address);
  std::int64_t rows = 0;
  Powers powers{};
  for (int b = 0; b < gradients.blocks; ++b) {
    rows += gradients.block[b].rows;
    powers.of_block[b] = sum_level_power(gradients.block[b].dim / kSumPartials);
  }
  const auto blocks = static_cast<unsigned>((rows + kWarps - 1) / kWarps);
  mean_squares_kernel<<<blocks, kThreads, 0, stream>>>(gradients, powers, means);
  cuda_check(cudaGetLastError(), "launching mean squares");
}

}  // namespace frugal::cuda
