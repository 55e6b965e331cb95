#include "full_softmax/cuda/round_matrix.h"

#include <algorithm>

#include "base/device/cuda_check.h"
#include "base/device/device_error.h"
#include "full_softmax/cuda/to_half.cuh"

namespace frugal::cuda {
namespace {

constexpr int kThreads = 256, kWarpLanes = 32;
constexpr std::int64_t kMostBlocks = 132 * 16;  // loops cover the rest
constexpr int kWord = 8;                        // numbers of 16 bits that a thread writes at a time

struct alignas(16) HalfWord {
  std::uint16_t at[kWord];
};

// Numbers 8 * piece .. of a row.
__device__ void read_piece(const MatrixRounding& r, std::int64_t row, std::int64_t piece, float* x) {
  const float* const from = r.from + row * r.from_stride + kWord * piece;
  const std::int64_t left = row < r.rows ? r.columns - kWord * piece : 0;
  if (left >= kWord) {
    const float4 low = reinterpret_cast<const float4*>(from)[0], high = reinterpret_cast<const float4*>(from)[1];
    x[0] = low.x, x[1] = low.y, x[2] = low.z, x[3] = low.w, x[4] = high.x, x[5] = high.y, x[6] = high.z, x[7] = high.w;
    return;
  }
  for (int k = 0; k < kWord; ++k) x[k] = k < left ? from[k] : 0.0f;
}

// Rounds all numbers, multiplied by a power; returns the bits of the largest magnitude that this thread has seen.
__device__ std::uint32_t round_all(const MatrixRounding& r, float power) {
  constexpr int kTogether = 4;  // pieces under way
  // In 32 bits, for quotients of 64 would take longer than memory.
  const auto across = static_cast<std::uint32_t>(r.to_columns / kWord);
  const std::uint32_t pieces = static_cast<std::uint32_t>(r.to_rows) * across, step = gridDim.x * kThreads;
  std::uint32_t largest = 0;
  for (std::uint32_t first = blockIdx.x * kThreads + threadIdx.x; first < pieces; first += kTogether * step) {
    float x[kTogether][kWord];
#pragma unroll
    for (int t = 0; t < kTogether; ++t)
      if (first + t * step < pieces) read_piece(r, (first + t * step) / across, (first + t * step) % across, x[t]);
#pragma unroll
    for (int t = 0; t < kTogether; ++t) {
      if (first + t * step >= pieces) continue;
      HalfWord word;
#pragma unroll
      for (int k = 0; k < kWord; ++k) {
        const std::uint32_t size = bits_of(x[t][k]) & 0x7fffffffu;
        largest = size > largest ? size : largest;
        word.at[k] = to_half(x[t][k] * power);
      }
      reinterpret_cast<HalfWord*>(r.to)[first + t * step] = word;
    }
  }
  return largest;
}

__global__ void __launch_bounds__(kThreads) round_kernel(MatrixRounding r) {
  std::uint32_t largest = round_all(r, kUsualPower);
  for (int half = kWarpLanes / 2; half > 0; half /= 2) {
    const std::uint32_t other = __shfl_xor_sync(0xffffffffu, largest, half);
    largest = other > largest ? other : largest;
  }
  // The bits of numbers of one sign have their order. Most warps see that a larger one is there already.
  auto* const of_all = reinterpret_cast<unsigned*>(r.scaling + 2);
  if (threadIdx.x % kWarpLanes == 0 && largest > *static_cast<volatile unsigned*>(of_all))
    atomicMax(of_all, largest);
}

// Once more, if another power is better.
__global__ void __launch_bounds__(kThreads) round_again_kernel(MatrixRounding r) {
  const float largest = r.scaling[2];
  const bool usual = is_usual(largest);
  const float power = usual ? kUsualPower : power_for(largest);
  if (!usual) round_all(r, power);
  if (blockIdx.x == 0 && threadIdx.x == 0) r.scaling[0] = power, r.scaling[1] = 1.0f / power;
}

}  // namespace

void round_matrix(const MatrixRounding& rounding, std::uintptr_t stream) {
  constexpr std::int64_t kMostPieces = std::int64_t{1} << 31;  // 68 GB of floats
  const std::int64_t pieces = rounding.to_rows * (rounding.to_columns / kWord);
  if (pieces == 0) return;
  if (pieces > kMostPieces) throw DeviceError("a matrix of so many numbers cannot be rounded in one launch");
  const auto blocks = static_cast<unsigned>(std::min((pieces + kThreads - 1) / kThreads, kMostBlocks));
  const auto on = reinterpret_cast<cudaStream_t>(stream);
  round_kernel<<<blocks, kThreads, 0, on>>>(rounding);
  round_again_kernel<<<blocks, kThreads, 0, on>>>(rounding);
  cuda_check(cudaGetLastError(), "launching the rounding of a matrix");
}

}  // namespace frugal::cuda
