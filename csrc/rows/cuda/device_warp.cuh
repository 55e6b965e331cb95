// A warp on a CUDA device: 32 threads with one lane each, all of which make every call. See rows/row_program.h.
#pragma once

#include "rows/row_program.h"

namespace frugal {

struct DeviceWarp {
  using Lanes = float;
  static constexpr unsigned kAll = 0xffffffffu;
  static constexpr int kVectors = 4;

  static __device__ int lane() { return threadIdx.x % 32; }

  static __device__ Lanes zero() { return 0.0f; }
  static __device__ Lanes load(const float* from, int active) { return lane() < active ? from[lane()] : 0.0f; }
  static __device__ void store(float* to, Lanes lanes, int active) {
    if (lane() < active) to[lane()] = lanes;
  }
  static __device__ void store_one(float* to, float value) {
    if (lane() == 0) *to = value;
  }
  static __device__ void add(Lanes& sum, Lanes other) { sum += other; }
  static __device__ void add_squares(Lanes& sum, const float* x, int active) {
    if (lane() < active) sum += x[lane()] * x[lane()];
  }
  static __device__ void add_from(Lanes& sum, int first, int active) {
    const float other = __shfl_down_sync(kAll, sum, first);
    if (lane() < active) sum += other;
  }
  static __device__ float broadcast(Lanes lanes, int lane) { return __shfl_sync(kAll, lanes, lane); }
  using Divisor = float;
  static __device__ Divisor divisor(float value) { return value; }
  // values += (negative_rate * gradient) / deviation.
  static __device__ void descend(Lanes (&values)[kVectors], const Lanes (&gradient)[kVectors], float negative_rate,
                                 Divisor deviation) {
    for (int v = 0; v < kVectors; ++v) values[v] += __fdiv_rn(negative_rate * gradient[v], deviation);
  }
  static __device__ float square_root(float x) { return __fsqrt_rn(x); }
};

}  // namespace frugal
