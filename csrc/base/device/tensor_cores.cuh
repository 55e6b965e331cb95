// The instruction of tensor cores (compute capability 8.0 and later) that tiles on them are made of.
#pragma once

#include <cstdint>

#include "base/device/cuda_check.h"

namespace frugal::cuda {

// Whether this code is compiled for a device that has it; the host's pass never runs.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
constexpr bool kTensorCores = false;
#else
constexpr bool kTensorCores = true;
#endif

// c += a b, by a warp: a of 16 x 8, b of 8 x 8 numbers, of which the instruction reads as much as TF32 has (a mantissa
// of 10 bits). With g = lane / 4 and t = lane % 4, a lane has of `a` the places (g, t), (g + 8, t), (g, t + 4),
// (g + 8, t + 4), of `b` (t, g), (t + 4, g), and of `c` (g, 2 t), (g, 2 t + 1), (g + 8, 2 t), (g + 8, 2 t + 1).
__device__ inline void multiply_add(float (&c)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
#if __CUDA_ARCH__ >= 800
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
  asm("trap;");
#endif
}

// c = a b, likewise.
__device__ inline void multiply(float (&c)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
#if __CUDA_ARCH__ >= 800
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%10, %10, %10, %10};"
      : "=f"(c[0]), "=f"(c[1]), "=f"(c[2]), "=f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(0.0f));
#else
  asm("trap;");
#endif
}

// Whether the current device runs a kernel as it was compiled for tensor cores.
template <typename Kernel>
bool runs_on_tensor_cores(Kernel kernel) {
  cudaFuncAttributes attributes{};
  cuda_check(cudaFuncGetAttributes(&attributes, kernel), "asking for a kernel's attributes");
  return attributes.ptxVersion >= 80;
}

}  // namespace frugal::cuda
