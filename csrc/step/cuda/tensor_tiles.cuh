// Tiles of products on tensor cores: in the place of Tile<Product, ...> (tiles.cuh) where its bits are not asked for.
//
// In three passes a product is that of two numbers' parts (base/device/tf32.cuh), in one pass high high. Tensor cores
// cut off what does not fit into a sum, always toward zero; so they add up a group of depths from zero, and these
// sums are rounded to the nearest as they are added to a result.
#pragma once

#include <cuda_pipeline.h>

#include <cstdint>

#include "base/device/tensor_cores.cuh"
#include "base/device/tf32.cuh"
#include "step/cuda/tiles.cuh"

namespace frugal::cuda {

inline constexpr int kGroup = 8;  // depths of an instruction

// How an operand's tile of kTile indices and kDepth depths lies in shared memory. Of kGroup depths a lane has kOwn
// neighbours, from kOwn * (lane % 4) on, of an index in each octet of a warp's kOctets. Rows are padded, or words of 16
// bytes permuted, so that the lanes' loads have no bank conflicts.
template <bool kDepthMajor, int kTile, int kDepth, int kOctets>
struct FragmentSlab {
  static constexpr int kOwn = kGroup / 4;
  static constexpr int kTogether = kDepthMajor ? kOctets / 4 * 4 : 0;  // octets of which four are read at once
  static constexpr int kRows = kDepthMajor ? kDepth : kTile, kPitch = kDepthMajor ? kTile + 4 : kDepth;
  static constexpr int kFloats = kRows * kPitch;
  static_assert(kDepthMajor ? kTile % 8 == 0 : kDepth % 32 == 0);

  static __device__ int place(int row, int column) {
    return row * kPitch + (kDepthMajor ? column : (column / 4 ^ row % 4 * 2) * 4 + column % 4);
  }

  // Which of a warp's indices is number g of an octet.
  static __device__ int index(int octet, int g) {
    return octet < kTogether ? octet / 4 * 32 + 4 * g + octet % 4 : 8 * octet + g;
  }

  static __device__ void read(const float* slab, int first, int depth, float (&x)[kOctets][kOwn]) {
    const int g = threadIdx.x / 4 % 8, own = depth + static_cast<int>(threadIdx.x % 4) * kOwn;
#pragma unroll
    for (int octet = 0; octet < kOctets; ++octet) {
      if constexpr (kDepthMajor) {
#pragma unroll
        for (int d = 0; d < kOwn; ++d) {
          const float* const at = slab + place(own + d, first + index(octet, g));
          if (octet >= kTogether) {
            x[octet][d] = *at;
          } else if (octet % 4 == 0) {
            const float4 word = *reinterpret_cast<const float4*>(at);
            x[octet][d] = word.x, x[octet + 1][d] = word.y, x[octet + 2][d] = word.z, x[octet + 3][d] = word.w;
          }
        }
      } else {
        const float2 word = *reinterpret_cast<const float2*>(slab + place(first + index(octet, g), own));
        x[octet][0] = word.x, x[octet][1] = word.y;
      }
    }
  }

  // A thread's share of the copies from device memory, of one slab after the other. What lies beyond an operand's last
  // index is replaced by what is before it, and not used; what is beyond its last depth becomes zero.
  template <int kBlock>
  class Copies {
   public:
    __device__ Copies(const Operand& from, int first, int depths)
        : step_(kDepthMajor ? from.stride * kDepth : kDepth), left_(depths) {
#pragma unroll
      for (int k = 0; k < kCount; ++k) {
        const int index = kDepthMajor ? first + column(k) : first + row(k);
        const int last = kDepthMajor ? from.part - 4 : from.rows - 1;
        from_[k] = from.data + (index < last ? index : last) * (kDepthMajor ? 1 : from.stride) +
                   depth(k) * (kDepthMajor ? from.stride : 1);
      }
    }
    // whole: whether the slab has all its depths.
    __device__ void start(float* slab, bool whole) {
      if (whole) {
#pragma unroll
        for (int k = 0; k < kCount; ++k)
          if (is_mine(k)) __pipeline_memcpy_async(slab + place(row(k), column(k)), from_[k], 16);
      } else {
#pragma unroll
        for (int k = 0; k < kCount; ++k)
          if (is_mine(k)) copy_rest(slab + place(row(k), column(k)), from_[k], left_ - depth(k));
      }
#pragma unroll
      for (int k = 0; k < kCount; ++k) from_[k] += step_;
      left_ -= kDepth;
    }

   private:
    static constexpr int kWords = (kDepthMajor ? kTile : kDepth) / 4, kTotal = kRows * kWords;
    static constexpr int kCount = (kTotal + kBlock - 1) / kBlock;

    static __device__ int word(int k) { return k * kBlock + threadIdx.x; }
    static __device__ bool is_mine(int k) { return (k + 1) * kBlock <= kTotal || word(k) < kTotal; }
    static __device__ int row(int k) { return word(k) / kWords; }
    static __device__ int column(int k) { return word(k) % kWords * 4; }
    static __device__ int depth(int k) { return kDepthMajor ? row(k) : column(k); }
    // left: depths from this word on.
    static __device__ void copy_rest(float* to, const float* from, int left) {
#pragma unroll
      for (int i = 0; i < 4; ++i) to[i] = (kDepthMajor ? 0 : i) < left ? from[i] : 0.0f;
    }

    const float* from_[kCount];
    int step_, left_;
  };
};

// A warp's results: 16 kTall x 8 kWide. A block's warps: kDown x kAcross of those, kSplits times, of which each takes
// its share of the depths. kBlocks: how many blocks a multiprocessor is to have at once.
template <int kTallOf, int kWideOf, int kDownOf, int kAcrossOf, int kSplitsOf, int kDepthOf, int kStagesOf,
          int kBlocksOf>
struct TensorShape {
  static constexpr int kTall = kTallOf, kWide = kWideOf, kDown = kDownOf, kAcross = kAcrossOf, kSplits = kSplitsOf;
  static constexpr int kDepth = kDepthOf, kStages = kStagesOf, kBlocks = kBlocksOf;
  static_assert(kDepth % (kGroup * kSplits) == 0);
};

template <int kPasses, typename S, bool kLeftDepthMajor, bool kRightDepthMajor>
struct TensorTile : S {
  using S::kTall, S::kWide, S::kDown, S::kAcross, S::kSplits, S::kDepth, S::kStages;
  static constexpr int kThreads = 32 * kDown * kAcross * kSplits;
  static constexpr int kRows = 16 * kTall * kDown, kColumns = 8 * kWide * kAcross;
  using Left = FragmentSlab<kLeftDepthMajor, kRows, kDepth, 2 * kTall>;
  using Right = FragmentSlab<kRightDepthMajor, kColumns, kDepth, kWide>;
  static constexpr int kSlabFloats = Left::kFloats + Right::kFloats;
  // Of the sums of a share of depths; so padded that lanes store without bank conflicts.
  static constexpr int kPartPitch = kColumns + (kRightDepthMajor ? 4 : 8), kPartFloats = kRows * kPartPitch;
  static constexpr int kSharedFloats =
      kStages * kSlabFloats > kSplits * kPartFloats ? kStages * kSlabFloats : kSplits * kPartFloats;
  // A thread's results: four neighbours of some rows.
  static constexpr bool kFours = true;
  static constexpr int kMicroColumns = 4, kWords = kColumns / 4, kMicroRows = kRows * kWords / kThreads;
  static_assert(kRows * kWords % kThreads == 0);
  using Sums = float[kMicroRows][kMicroColumns];

  static __device__ int row(int m) { return word(m) / kWords; }
  static __device__ int column(int m, int j) { return word(m) % kWords * 4 + j; }

  // Adds to sum. shared: kSharedFloats, 16-byte aligned, free again after the block's next barrier, but for what
  // left_sum reads. kLeftSums: whether it is wanted.
  template <bool kLeftSums>
  static __device__ void fold(float* shared, const Operand& left, int first_row, const Operand& right, int first_column,
                              int depths, const Sums&, Sums& sum) {
    const int slabs = (depths + kDepth - 1) / kDepth;
    typename Left::template Copies<kThreads> from_left(left, first_row, depths);
    typename Right::template Copies<kThreads> from_right(right, first_column, depths);
    const auto fetch = [&](int slab, float* to) {
      if (slab < slabs) {
        const bool whole = (slab + 1) * kDepth <= depths;
        from_left.start(to, whole);
        from_right.start(to + Left::kFloats, whole);
      }
      __pipeline_commit();  // also of nothing, so that a slab's number tells how many are younger
    };
    Warp<kLeftSums> warp;
#pragma unroll 1
    for (int slab = 0; slab < kStages; ++slab) fetch(slab, shared + slab * kSlabFloats);
    __pipeline_wait_prior(kStages - 1);
    __syncthreads();
    Fragments now;
    warp.read(shared, 0, now);
    float* place = shared;  // of this slab
    for (int slab = 0; slab < slabs; ++slab) {
      float* const next = place == shared + (kStages - 1) * kSlabFloats ? shared : place + kSlabFloats;
#pragma unroll
      for (int turn = 0; turn < kTurns; ++turn) {
        Fragments ahead;
        if (turn + 1 < kTurns) {
          warp.read(place, turn + 1, ahead);
        } else {
          __pipeline_wait_prior(kStages - 2);
          __syncthreads();               // everybody's part of the next slab has come, and everybody has read this one,
          fetch(slab + kStages, place);  // whose place the youngest takes
          if (slab + 1 < slabs) warp.read(next, 0, ahead);
        }
        if (slab * kDepth + warp.depth(turn) < depths) warp.multiply(now);
        now = ahead;
      }
      place = next;
    }
    __pipeline_wait_prior(0);
    __syncthreads();  // nobody reads a slab any more
    warp.write(shared);
    __syncthreads();
#pragma unroll
    for (int split = 0; split < kSplits; ++split)
#pragma unroll
      for (int m = 0; m < kMicroRows; ++m) {
        const float4 x =
            *reinterpret_cast<const float4*>(shared + split * kPartFloats + row(m) * kPartPitch + column(m, 0));
        sum[m][0] += x.x, sum[m][1] += x.y, sum[m][2] += x.z, sum[m][3] += x.w;
      }
  }

  // Of a row of the left operand, over all depths; until the block's next barrier.
  static __device__ float left_sum(const float* shared, int row) {
    float sum = shared[row * kPartPitch + kColumns];
#pragma unroll
    for (int split = 1; split < kSplits; ++split) sum += shared[split * kPartFloats + row * kPartPitch + kColumns];
    return sum;
  }

 private:
  // Which of the words of results is a thread's m-th. The last thread has the first one: if threads counted as they do
  // for copies, compilers would keep the quotients from there in registers, all through the loop.
  static __device__ int word(int m) { return m * kThreads + kThreads - 1 - static_cast<int>(threadIdx.x); }

  static constexpr int kOwn = Left::kOwn, kTurns = kDepth / (kGroup * kSplits);

  // A lane's share of a group of depths.
  struct Fragments {
    float a[2 * kTall][kOwn], b[kWide][kOwn];
  };

  template <bool kLeftSums>
  struct Warp {
    const int number = threadIdx.x / 32, split = number / (kDown * kAcross);
    const int first_row = number / kAcross % kDown * 16 * kTall, first_column = number % kAcross * 8 * kWide;
    float sum[kTall][kWide][4] = {}, left_sum[2 * kTall] = {};

    // The first one of the warp's depths, within a slab.
    __device__ int depth(int turn) const { return (turn * kSplits + split) * kGroup; }
    __device__ void read(const float* slab, int turn, Fragments& to) const {
      Left::read(slab, first_row, depth(turn), to.a);
      Right::read(slab + Left::kFloats, first_column, depth(turn), to.b);
    }

    // Adds the products of a group of depths.
    __device__ void multiply(const Fragments& from) {
      std::uint32_t high_b[kWide][2], low_b[kWide][2];
#pragma unroll
      for (int j = 0; j < kWide; ++j)
#pragma unroll
        for (int k = 0; k < 2; ++k) {
          const float x = from.b[j][k];
          high_b[j][k] = high_of(x), low_b[j][k] = low_of(x, high_b[j][k]);
        }
#pragma unroll
      for (int i = 0; i < kTall; ++i) {
        std::uint32_t high_a[4], low_a[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          const float x = from.a[2 * i + k % 2][k / 2];
          high_a[k] = high_of(x), low_a[k] = low_of(x, high_a[k]);
          if constexpr (kLeftSums) left_sum[2 * i + k % 2] += x;
        }
        float part[kWide][4];
        if constexpr (kPasses == 3) {
#pragma unroll
          for (int j = 0; j < kWide; ++j) frugal::cuda::multiply(part[j], low_a, high_b[j]);
#pragma unroll
          for (int j = 0; j < kWide; ++j) multiply_add(part[j], high_a, low_b[j]);
        }
#pragma unroll
        for (int j = 0; j < kWide; ++j)
          if constexpr (kPasses == 3)
            multiply_add(part[j], high_a, high_b[j]);
          else
            frugal::cuda::multiply(part[j], high_a, high_b[j]);
#pragma unroll
        for (int j = 0; j < kWide; ++j)
#pragma unroll
          for (int k = 0; k < 4; ++k) sum[i][j][k] += part[j][k];
      }
    }

    // Sums of this share of the depths, and behind each row the left operand's.
    __device__ void write(float* shared) {
      const int g = threadIdx.x / 4 % 8, t = threadIdx.x % 4;
      float* const part = shared + split * kPartFloats;
#pragma unroll
      for (int octet = 0; octet < 2 * kTall; ++octet) {
        float* const row = part + (first_row + Left::index(octet, g)) * kPartPitch;
        const auto& mine = sum[octet / 2];
        const int half = octet % 2 * 2;
        float* const at = row + first_column;
#pragma unroll
        for (int j = 0; j < Right::kTogether; j += 4)
#pragma unroll
          for (int k = half; k < half + 2; ++k)
            *reinterpret_cast<float4*>(at + Right::index(j, 2 * t + k - half)) = {mine[j][k], mine[j + 1][k],
                                                                                  mine[j + 2][k], mine[j + 3][k]};
#pragma unroll
        for (int j = Right::kTogether; j < kWide; ++j)
          *reinterpret_cast<float2*>(at + Right::index(j, 2 * t)) = {mine[j][half], mine[j][half + 1]};
        if constexpr (kLeftSums) {
          float all = left_sum[octet];
          all += __shfl_xor_sync(~0u, all, 1);
          all += __shfl_xor_sync(~0u, all, 2);
          if (first_column == 0 && t == 0) row[kColumns] = all;
        }
      }
    }
  };
};

}  // namespace frugal::cuda
