#include "models/cuda/complex_product.h"

#include <algorithm>
#include <string>

#include "base/device/cuda_check.h"

namespace frugal::cuda {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kMostBlocks = 1 << 16;  // the loop covers the rest

// A block for a row.
__global__ void __launch_bounds__(kThreads) multiply_complex_kernel(ComplexProduct p) {
  const float sign = p.conjugate ? -1.0f : 1.0f;
  for (std::int64_t i = blockIdx.x; i < p.rows; i += gridDim.x) {
    const float *const x = p.x + i * p.x_stride, *const y = p.y + i * p.y_stride;
    float* const out = p.out + i * p.out_stride;
#pragma unroll 4
    for (std::int64_t k = threadIdx.x; k < p.numbers; k += kThreads) multiply_number(x, y, out, k, p.numbers, sign);
  }
}

}  // namespace

void multiply_complex(const ComplexProduct& product, const Launch& launch) {
  if (product.rows == 0) return;
  const auto blocks = static_cast<unsigned>(std::min(product.rows, kMostBlocks));
  const auto stream = reinterpret_cast<cudaStream_t>(launch.stream);
  multiply_complex_kernel<<<blocks, kThreads, 0, stream>>>(product);
  cuda_check(cudaGetLastError(), "launching the products of " + std::to_string(product.rows) + " complex rows");
}

}  // namespace frugal::cuda
