// In the place of the instruction: its sum, of numbers cut to TF32, cut toward zero.
#pragma once

#include <cmath>
#include <cstdint>

#include "emulated_cuda.h"

namespace frugal::cuda {

constexpr bool kTensorCores = true;

inline void multiply_add(float (&c)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  constexpr int kMostThreads = 1024;
  // Of all lanes; of this call and of the one before, which others may still read.
  static float all_rows[2][kMostThreads][4], all_columns[2][kMostThreads][2];
  static unsigned calls[kMostThreads];
  const unsigned now = calls[threadIdx.x]++ % 2;
  auto& rows = all_rows[now];
  auto& columns = all_columns[now];
  const auto cut = [](std::uint32_t x) { return __uint_as_float(x & 0xffffe000u); };
  for (int k = 0; k < 4; ++k) rows[threadIdx.x][k] = cut(a[k]);
  for (int k = 0; k < 2; ++k) columns[threadIdx.x][k] = cut(b[k]);
  emulation::sync_lanes(~0u);
  const int lane = threadIdx.x % 32, first = threadIdx.x - lane;
  for (int k = 0; k < 4; ++k) {
    const int half = k / 2, column = lane % 4 * 2 + k % 2;
    double sum = c[k];
    for (int d = 0; d < 8; ++d)
      sum += static_cast<double>(rows[first + lane / 4 * 4 + d % 4][half + d / 4 * 2]) *
             columns[first + column * 4 + d % 4][d / 4];
    c[k] = static_cast<float>(sum);
    if (std::abs(c[k]) > std::abs(sum)) c[k] = std::nextafter(c[k], 0.0f);
  }
}

inline void multiply(float (&c)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  for (float& x : c) x = 0.0f;
  multiply_add(c, a, b);
}

template <typename Kernel>
bool runs_on_tensor_cores(Kernel) {
  return true;
}

}  // namespace frugal::cuda
