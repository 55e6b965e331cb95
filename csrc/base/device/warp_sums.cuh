// Sums over the lanes of a warp, whose order is the same in every run.
#pragma once

namespace frugal::cuda {

// Lane l gets the sum over all lanes of values[l * kValues / 32]; values are changed. kValues: a power of two up to 32.
template <int kValues>
__device__ inline float warp_sums(float (&values)[kValues]) {
  constexpr unsigned kAll = 0xffffffffu;
  const unsigned lane = threadIdx.x % 32;
  unsigned bit = 16;
#pragma unroll
  for (int half = kValues / 2; half > 0; half /= 2, bit /= 2)
#pragma unroll
    for (int i = 0; i < half; ++i) {
      const float low = values[i], high = values[i + half];
      values[i] = (lane & bit ? high : low) + __shfl_xor_sync(kAll, lane & bit ? low : high, bit);
    }
  float sum = values[0];
#pragma unroll
  for (; bit > 0; bit /= 2) sum += __shfl_xor_sync(kAll, sum, bit);
  return sum;
}

__device__ inline float warp_sum(float x) {
  float values[1] = {x};
  return warp_sums(values);
}

}  // namespace frugal::cuda
