// Tiles of products on tensor cores: in the place of Tile<Product, ...> (tiles.cuh) where its bits are not asked for.
//
// In three passes a number is a sum of two of TF32, high + low, and a product is low high + high low + high high: what
// is left out, and what of `low` TF32 has no place for, is 2^-22 of it. In one pass it is high high. Tensor cores cut
// off what does not fit into a sum, always toward zero; so they add up kGroup depths from zero, and these sums are
// rounded to the nearest as they are added to a result.
#pragma once

#include <cuda_pipeline.h>

#include <cstdint>

#include "step/cuda/tensor_cores.cuh"
#include "step/cuda/tiles.cuh"

namespace frugal::cuda {

// How an operand's tile of kTile indices and kDepth depths lies in shared memory. Of kGroup depths a lane has kOwn
// neighbours, from kOwn * (lane % 4) on, of an index in each octet of a warp's indices; words of 16 bytes are
// permuted so that the lanes' loads meet in no bank.
template <bool kDepthMajor, int kTile, int kDepth, int kGroup>
struct FragmentSlab {
  static constexpr int kOwn = kGroup / 4;
  static constexpr int kRows = kDepthMajor ? kDepth : kTile, kPitch = kDepthMajor ? kTile : kDepth;
  static constexpr int kFloats = kRows * kPitch;
  static_assert((kGroup == 8 || kGroup == 16) && kPitch % 32 == 0);

  static __device__ int place(int row, int column) {
    const int turn = kDepthMajor ? row / kOwn % 4 * 2 : kGroup == 16 ? row % 2 * 4 : row % 4 * 2;
    return row * kPitch + (column / 4 ^ turn) * 4 + column % 4;
  }
  static __device__ float at(const float* slab, int, int index, int depth) {
    return slab[kDepthMajor ? place(depth, index) : place(index, depth)];
  }

  // Which of a warp's indices is number g of an octet.
  static __device__ int index(int octet, int g) {
    return kDepthMajor ? octet / 4 * 32 + 4 * g + octet % 4 : 8 * octet + g;
  }

  template <int kOctets>
  static __device__ void read(const float* slab, int first, int depth, float (&x)[kOctets][kOwn]) {
    static_assert(!kDepthMajor || kOctets % 4 == 0);
    const int g = threadIdx.x / 4 % 8, own = depth + static_cast<int>(threadIdx.x % 4) * kOwn;
#pragma unroll
    for (int octet = 0; octet < kOctets; ++octet) {
      if (kDepthMajor && octet % 4 != 0) continue;
      if constexpr (kDepthMajor) {
#pragma unroll
        for (int d = 0; d < kOwn; ++d) {
          const float4 word = *reinterpret_cast<const float4*>(slab + place(own + d, first + index(octet, g)));
          x[octet][d] = word.x, x[octet + 1][d] = word.y, x[octet + 2][d] = word.z, x[octet + 3][d] = word.w;
        }
      } else if constexpr (kOwn == 4) {
        const float4 word = *reinterpret_cast<const float4*>(slab + place(first + index(octet, g), own));
        x[octet][0] = word.x, x[octet][1] = word.y, x[octet][2] = word.z, x[octet][3] = word.w;
      } else {
        const float2 word = *reinterpret_cast<const float2*>(slab + place(first + index(octet, g), own));
        x[octet][0] = word.x, x[octet][1] = word.y;
      }
    }
  }

  // A thread's share of the copies from device memory, as in Slab.
  template <int kBlock>
  class Copies {
   public:
    __device__ Copies(const Operand& from, int first) : from_(from) {
#pragma unroll
      for (int k = 0; k < kCount; ++k) {
        const int index = kDepthMajor ? first + column() : first + row(k);
        const int last = kDepthMajor ? from.part - 4 : from.rows - 1;
        fixed_[k] = (index < last ? index : last) * (kDepthMajor ? 1 : from.stride);
      }
    }
    // Depths from `end` on become zero.
    __device__ void start(float* slab, int depth, int end) const {
#pragma unroll
      for (int k = 0; k < kCount; ++k) {
        float* to = slab + place(row(k), column());
        const int moving = depth + (kDepthMajor ? row(k) : column());
        const float* from = from_.data + fixed_[k] + moving * (kDepthMajor ? from_.stride : 1);
        if (moving + (kDepthMajor ? 1 : 4) <= end) {
          __pipeline_memcpy_async(to, from, 16);
        } else {
#pragma unroll
          for (int i = 0; i < 4; ++i) to[i] = !kDepthMajor && moving + i < end ? from[i] : 0.0f;
        }
      }
    }

   private:
    static constexpr int kWords = kPitch / 4, kRowsAtOnce = kBlock / kWords, kCount = kRows / kRowsAtOnce;
    static_assert(kBlock % kWords == 0 && kRows % kRowsAtOnce == 0);

    static __device__ int column() { return threadIdx.x % kWords * 4; }
    static __device__ int row(int k) { return k * kRowsAtOnce + threadIdx.x / kWords; }

    const Operand from_;
    int fixed_[kCount];
  };
};

// A warp's results: 16 kTall x 8 kWide. A block's warps: kDown x kAcross of those, kSplits times, of which each takes
// its share of the depths.
template <int kTallOf, int kWideOf, int kDownOf, int kAcrossOf, int kSplitsOf, int kDepthOf, int kGroupOf,
          int kStagesOf>
struct TensorShape {
  static constexpr int kTall = kTallOf, kWide = kWideOf, kDown = kDownOf, kAcross = kAcrossOf, kSplits = kSplitsOf;
  static constexpr int kDepth = kDepthOf, kGroup = kGroupOf, kStages = kStagesOf;
  static_assert(kDepth % (kGroup * kSplits) == 0);
};

template <int kPasses, typename S, bool kLeftDepthMajor, bool kRightDepthMajor>
struct TensorTile : S {
  using S::kTall, S::kWide, S::kDown, S::kAcross, S::kSplits, S::kDepth, S::kGroup, S::kStages;
  static constexpr int kThreads = 32 * kDown * kAcross * kSplits;
  static constexpr int kRows = 16 * kTall * kDown, kColumns = 8 * kWide * kAcross;
  using Left = FragmentSlab<kLeftDepthMajor, kRows, kDepth, kGroup>;
  using Right = FragmentSlab<kRightDepthMajor, kColumns, kDepth, kGroup>;
  static constexpr int kSlabFloats = Left::kFloats + Right::kFloats;
  static constexpr int kPartPitch = kColumns + 4, kPartFloats = kRows * kPartPitch;  // of the sums of a share of depths
  static constexpr int kSharedFloats =
      kStages * kSlabFloats > kSplits * kPartFloats ? kStages * kSlabFloats : kSplits * kPartFloats;
  // A thread's results: four neighbours of some rows.
  static constexpr bool kFours = true;
  static constexpr int kSummers = kThreads / kRows;
  static constexpr int kMicroColumns = 4, kThreadColumns = kColumns / 4, kThreadRows = kThreads / kThreadColumns;
  static constexpr int kMicroRows = kRows / kThreadRows;
  static_assert(kThreads % kThreadColumns == 0 && kRows % kThreadRows == 0);
  using Sums = float[kMicroRows][kMicroColumns];

  static __device__ int row(int m) { return m * kThreadRows + threadIdx.x / kThreadColumns; }
  static __device__ int column(int m) { return threadIdx.x % kThreadColumns * 4 + m; }

  static __device__ void fold(float* shared, const Operand& left, int first_row, const Operand& right, int first_column,
                              int depths, const Sums&, Sums& sum, auto each_slab) {
    const int slabs = (depths + kDepth - 1) / kDepth;
    const typename Left::template Copies<kThreads> from_left(left, first_row);
    const typename Right::template Copies<kThreads> from_right(right, first_column);
    const auto fetch = [&](int slab, float* to) {
      if (slab < slabs) {
        from_left.start(to, slab * kDepth, depths);
        from_right.start(to + Left::kFloats, slab * kDepth, depths);
      }
      __pipeline_commit();  // also of nothing, so that a slab's number tells how many are younger
    };
    float *now = shared, *next = shared + (kStages - 1) * kSlabFloats;  // places of this slab, and of the youngest
    const auto advance = [&](float* place) {
      return place == shared + (kStages - 1) * kSlabFloats ? shared : place + kSlabFloats;
    };
    Warp warp;
    for (int slab = 0; slab < kStages - 1; ++slab) fetch(slab, shared + slab * kSlabFloats);
    for (int slab = 0; slab < slabs; ++slab, now = advance(now), next = advance(next)) {
      __pipeline_wait_prior(kStages - 2);
      __syncthreads();                  // everybody's part of this slab has come, and everybody is done with the one
      fetch(slab + kStages - 1, next);  // before, whose place the youngest takes
      const int count = depths - slab * kDepth < kDepth ? depths - slab * kDepth : kDepth;
      each_slab(now, count);
#pragma unroll
      for (int depth = 0; depth < kDepth; depth += kSplits * kGroup)
        if (depth + warp.split * kGroup < count)
          warp.add_group(now, now + Left::kFloats, depth + warp.split * kGroup);
    }
    __pipeline_wait_prior(0);
    __syncthreads();  // all slabs have been folded
    warp.write(shared + warp.split * kPartFloats);
    __syncthreads();
#pragma unroll
    for (int split = 0; split < kSplits; ++split)
#pragma unroll
      for (int m = 0; m < kMicroRows; ++m) {
        const float4 x =
            *reinterpret_cast<const float4*>(shared + split * kPartFloats + row(m) * kPartPitch + column(0));
        sum[m][0] += x.x, sum[m][1] += x.y, sum[m][2] += x.z, sum[m][3] += x.w;
      }
  }

 private:
  static __device__ std::uint32_t high_of(float x) { return (__float_as_uint(x) + 0x1000u) & 0xffffe000u; }
  static __device__ std::uint32_t low_of(float x, std::uint32_t high) {
    return __float_as_uint(x - __uint_as_float(high));
  }

  struct Warp {
    const int number = threadIdx.x / 32, split = number / (kDown * kAcross);
    const int first_row = number / kAcross % kDown * 16 * kTall, first_column = number % kAcross * 8 * kWide;
    float sum[kTall][kWide][4] = {};

    __device__ void add_group(const float* left, const float* right, int depth) {
      float a[2 * kTall][Left::kOwn], b[kWide][Left::kOwn];
      Left::read(left, first_row, depth, a);
      Right::read(right, first_column, depth, b);
      float part[kTall][kWide][4] = {};
#pragma unroll
      for (int d = 0; d < Left::kOwn; d += 2) {
        std::uint32_t high_a[kTall][4], low_a[kTall][4], high_b[kWide][2], low_b[kWide][2];
#pragma unroll
        for (int i = 0; i < kTall; ++i)
#pragma unroll
          for (int k = 0; k < 4; ++k) {
            const float x = a[2 * i + k % 2][d + k / 2];
            high_a[i][k] = high_of(x), low_a[i][k] = low_of(x, high_a[i][k]);
          }
#pragma unroll
        for (int j = 0; j < kWide; ++j)
#pragma unroll
          for (int k = 0; k < 2; ++k) {
            const float x = b[j][d + k];
            high_b[j][k] = high_of(x), low_b[j][k] = low_of(x, high_b[j][k]);
          }
        if constexpr (kPasses == 3) {
          multiply_all(part, low_a, high_b);
          multiply_all(part, high_a, low_b);
        }
        multiply_all(part, high_a, high_b);
      }
#pragma unroll
      for (int i = 0; i < kTall; ++i)
#pragma unroll
        for (int j = 0; j < kWide; ++j)
#pragma unroll
          for (int k = 0; k < 4; ++k) sum[i][j][k] += part[i][j][k];
    }

    static __device__ void multiply_all(float (&c)[kTall][kWide][4], const std::uint32_t (&a)[kTall][4],
                                        const std::uint32_t (&b)[kWide][2]) {
#pragma unroll
      for (int i = 0; i < kTall; ++i)
#pragma unroll
        for (int j = 0; j < kWide; ++j) multiply_add(c[i][j], a[i], b[j]);
    }

    __device__ void write(float* to) const {
      const int g = threadIdx.x / 4 % 8, t = threadIdx.x % 4;
#pragma unroll
      for (int i = 0; i < kTall; ++i)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          float* row = to + (first_row + Left::index(2 * i + half, g)) * kPartPitch + first_column;
#pragma unroll
          for (int j = 0; j < kWide; ++j)
#pragma unroll
            for (int k = 0; k < 2; ++k) row[Right::index(j, 2 * t + k)] = sum[i][j][2 * half + k];
        }
    }
  };
};

}  // namespace frugal::cuda
