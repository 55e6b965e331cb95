// Comparing a few rows with many others, one thread per column: the device's counterpart of the tiles of the CPU.
//
// compare: the thread's negative against Count queries in shared memory. gradient: the thread's column p of the
// gradients of Count rows `mine`, over `others` rows that other(j) points to, with weight(i, j). Both add in the CPU's
// order, so that the bits agree.
#pragma once

#include "models/similarity/scores.h"

namespace frugal::cuda {

template <typename S>
struct DotPairs {
  using Scores = S;
  static constexpr bool kNeedsSums = false;
  static __host__ __device__ std::int64_t threads(std::int64_t dim) { return dim; }

  template <int Count>
  static __device__ void compare(std::int64_t dim, const float* query, std::int64_t stride, const float* panel,
                                 float* value) {
    for (int i = 0; i < Count; ++i) value[i] = 0.0f;
    for (std::int64_t p = 0; p < dim; ++p) {
      const float x = panel[p * kLanes];
#pragma unroll
      for (int i = 0; i < Count; ++i) value[i] = __fmaf_rn(query[i * stride + p], x, value[i]);
    }
  }
  template <int Count, typename Other, typename Weight>
  static __device__ void gradient(std::int64_t, std::int64_t p, std::int64_t others, const float*, std::int64_t,
                                  Other other, Weight weight, const float*, float* out, std::int64_t stride) {
    float sum[Count] = {};
    for (std::int64_t j = 0; j < others; ++j) {
      const float x = other(j)[p];
#pragma unroll
      for (int i = 0; i < Count; ++i) sum[i] = __fmaf_rn(weight(i, j), x, sum[i]);
    }
    for (int i = 0; i < Count; ++i) out[i * stride + p] = sum[i];
  }
};

struct L2Pairs : DotPairs<L2Scores> {
  static constexpr bool kNeedsSums = true;

  template <int Count, typename Other, typename Weight>
  static __device__ void gradient(std::int64_t dim, std::int64_t p, std::int64_t others, const float* mine,
                                  std::int64_t stride, Other other, Weight weight, const float* sums, float* out,
                                  std::int64_t out_stride) {
    DotPairs<L2Scores>::gradient<Count>(dim, p, others, mine, stride, other, weight, sums, out, out_stride);
    for (int i = 0; i < Count; ++i)
      out[i * out_stride + p] = __fmaf_rn(sums[i], mine[i * stride + p], 0.0f - out[i * out_stride + p]);
  }
};

struct L1Pairs {
  using Scores = DistanceScores;
  static constexpr bool kNeedsSums = false;
  static __host__ __device__ std::int64_t threads(std::int64_t dim) { return dim; }

  template <int Count>
  static __device__ void compare(std::int64_t dim, const float* query, std::int64_t stride, const float* panel,
                                 float* value) {
    for (int i = 0; i < Count; ++i) value[i] = 0.0f;
    for (std::int64_t p = 0; p < dim; ++p) {
      const float x = panel[p * kLanes];
#pragma unroll
      for (int i = 0; i < Count; ++i) value[i] += fabsf(query[i * stride + p] - x);
    }
  }
  template <int Count, typename Other, typename Weight>
  static __device__ void gradient(std::int64_t, std::int64_t p, std::int64_t others, const float* mine,
                                  std::int64_t stride, Other other, Weight weight, const float*, float* out,
                                  std::int64_t out_stride) {
    float own[Count], sum[Count] = {};
    for (int i = 0; i < Count; ++i) own[i] = mine[i * stride + p];
    for (std::int64_t j = 0; j < others; ++j) {
      const float x = other(j)[p];
#pragma unroll
      for (int i = 0; i < Count; ++i) sum[i] = __fmaf_rn(sign({own[i] - x}).x, weight(i, j), sum[i]);
    }
    for (int i = 0; i < Count; ++i) out[i * out_stride + p] = sum[i];
  }
};

struct ModulusPairs {
  using Scores = DistanceScores;
  static constexpr bool kNeedsSums = false;
  static __host__ __device__ std::int64_t threads(std::int64_t dim) {
    return dim / 2;
  }  // a real part and its imaginary one

  static __device__ float square(float x, float y) { return __fmaf_rn(x, x, y * y); }

  template <int Count>
  static __device__ void compare(std::int64_t dim, const float* query, std::int64_t stride, const float* panel,
                                 float* value) {
    const std::int64_t half = dim / 2;
    for (int i = 0; i < Count; ++i) value[i] = 0.0f;
    for (std::int64_t p = 0; p < half; ++p) {
      const float real = panel[p * kLanes], imaginary = panel[(half + p) * kLanes];
#pragma unroll
      for (int i = 0; i < Count; ++i)
        value[i] += __fsqrt_rn(square(query[i * stride + p] - real, query[i * stride + half + p] - imaginary));
    }
  }
  template <int Count, typename Other, typename Weight>
  static __device__ void gradient(std::int64_t dim, std::int64_t p, std::int64_t others, const float* mine,
                                  std::int64_t stride, Other other, Weight weight, const float*, float* out,
                                  std::int64_t out_stride) {
    const std::int64_t half = dim / 2;
    float real[Count] = {}, imaginary[Count] = {};
    for (std::int64_t j = 0; j < others; ++j) {
      const float other_real = other(j)[p], other_imaginary = other(j)[half + p];
#pragma unroll
      for (int i = 0; i < Count; ++i) {
        const float x = mine[i * stride + p] - other_real, y = mine[i * stride + half + p] - other_imaginary;
        const float distance = square(x, y);
        const float ratio = distance > 0.0f ? __fdiv_rn(weight(i, j), __fsqrt_rn(distance)) : 0.0f;
        real[i] = __fmaf_rn(ratio, x, real[i]);
        imaginary[i] = __fmaf_rn(ratio, y, imaginary[i]);
      }
    }
    for (int i = 0; i < Count; ++i) {
      out[i * out_stride + p] = real[i];
      out[i * out_stride + half + p] = imaginary[i];
    }
  }
};

}  // namespace frugal::cuda
