// Tiles of results in the registers of a block: the device's counterpart of base/linalg/tile.h.
//
// Result (i, j) is an operation folded over depths 0, 1, ..., depths - 1 of a left operand's index i and a right one's
// index j. One thread folds it, in that order, so that its bits are those of the CPU's tile whatever the tiles' sizes.
// Slabs of a few depths of both operands come to shared memory by asynchronous copies (synchronous ones before compute
// capability 8.0) while earlier slabs are folded.
#pragma once

#include <cuda_pipeline.h>

#include <cstdint>

#include "step/cuda/normal_roots.cuh"

namespace frugal::cuda {

// Rows in device memory: 16-byte aligned, a multiple of 4 floats apart. A row is one or more parts (real, imaginary) of
// `part` floats each, of which the last few may be padding.
struct Operand {
  const float* data;
  int stride, part, rows;
};

// How an operand's tile of kTile indices lies in shared memory, for kThreads threads side by side with kMicro of them
// each. kDepthMajor: an operand's rows are its depths, else its indices.
template <bool kDepthMajor, int kParts, int kMicro, int kThreads, int kDepth>
struct Slab {
  static constexpr int kTile = kMicro * kThreads;
  static constexpr int kRows = kDepthMajor ? kDepth : kTile;
  static constexpr int kPitch = kDepthMajor ? kTile : kDepth + 4;  // 4: neighbours' words lie in different banks
  static constexpr int kFloats = kParts * kRows * kPitch;
  static_assert((!kDepthMajor || kMicro % 4 == 0) && kDepth % 4 == 0);

  // Which index of the tile is a thread's m-th.
  static __device__ int index(int thread, int m) {
    return kDepthMajor ? m / 4 * 4 * kThreads + 4 * thread + m % 4 : m * kThreads + thread;
  }

  // A thread's share of the copies from device memory: always the same rows or columns, further and further along the
  // depths. What lies beyond an operand's end is replaced by what is before it, and not used.
  template <int kBlock>
  class Copies {
   public:
    __device__ Copies(const Operand& from, int first) : from_(from) {
#pragma unroll
      for (int k = 0; k < kCount; ++k) {
        const int index = kDepthMajor ? first + column() : first + row(k);
        const int last = kDepthMajor ? from.part - 4 : from.rows - 1;
        fixed_[k] = (index < last ? index : last) * (kDepthMajor ? 1 : from.stride) + part(k) * from.part;
      }
    }
    __device__ void start(float* slab, int depth) const {
#pragma unroll
      for (int k = 0; k < kCount; ++k) {
        const int moving = depth + (kDepthMajor ? row(k) : column());
        const int last = kDepthMajor ? from_.rows - 1 : from_.part - 4;
        const int at = fixed_[k] + (moving < last ? moving : last) * (kDepthMajor ? from_.stride : 1);
        __pipeline_memcpy_async(slab + (part(k) * kRows + row(k)) * kPitch + column(), from_.data + at, 16);
      }
    }

   private:
    static constexpr int kWords = (kDepthMajor ? kTile : kDepth) / 4, kRowsAtOnce = kBlock / kWords;
    static constexpr int kCount = kParts * kRows / kRowsAtOnce;
    static_assert(kBlock % kWords == 0 && kParts * kRows % kRowsAtOnce == 0);

    static __device__ int column() { return threadIdx.x % kWords * 4; }
    static __device__ int row(int k) { return (k * kRowsAtOnce + threadIdx.x / kWords) % kRows; }
    static __device__ int part(int k) { return (k * kRowsAtOnce + threadIdx.x / kWords) / kRows; }

    const Operand from_;
    int fixed_[kCount];
  };

  // A thread's indices at four depths, `depth` a multiple of 4.
  static __device__ void read(const float* slab, int thread, int depth, float (&x)[4][kParts][kMicro]) {
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      const float* rows = slab + part * kRows * kPitch;
#pragma unroll
      for (int m = 0; m < kMicro; ++m) {
        if (kDepthMajor && m % 4 != 0) continue;
        if (kDepthMajor) {
#pragma unroll
          for (int d = 0; d < 4; ++d) {
            const float4 word = *reinterpret_cast<const float4*>(rows + (depth + d) * kPitch + index(thread, m));
            x[d][part][m] = word.x, x[d][part][m + 1] = word.y, x[d][part][m + 2] = word.z, x[d][part][m + 3] = word.w;
          }
        } else {
          const float4 word = *reinterpret_cast<const float4*>(rows + index(thread, m) * kPitch + depth);
          x[0][part][m] = word.x, x[1][part][m] = word.y, x[2][part][m] = word.z, x[3][part][m] = word.w;
        }
      }
    }
  }

  static __device__ float at(const float* slab, int part, int index, int depth) {
    return slab[part * kRows * kPitch + (kDepthMajor ? depth * kPitch + index : index * kPitch + depth)];
  }
};

// What is folded, at one depth, into a thread's kRows x kColumns results: a[part][i] is of the left operand's indices,
// b[part][j] of the right one's, own[i][j] and sum[i][j] of the results. kLeft, kRight: parts of the operands; kOwn:
// whether it also needs the result's own number. kUnroll: how many groups of four depths the code spells out.
struct Product {
  static constexpr bool kOwn = false;
  static constexpr int kLeft = 1, kRight = 1, kUnroll = 8;
  template <int kRows, int kColumns>
  static __device__ void fold(const float (&a)[1][kRows], const float (&b)[1][kColumns],
                              const float (&)[kRows][kColumns], float (&sum)[kRows][kColumns]) {
#pragma unroll
    for (int i = 0; i < kRows; ++i)
#pragma unroll
      for (int j = 0; j < kColumns; ++j) sum[i][j] = __fmaf_rn(a[0][i], b[0][j], sum[i][j]);
  }
};

struct AbsoluteDistance {
  static constexpr bool kOwn = false;
  static constexpr int kLeft = 1, kRight = 1, kUnroll = 4;
  template <int kRows, int kColumns>
  static __device__ void fold(const float (&a)[1][kRows], const float (&b)[1][kColumns],
                              const float (&)[kRows][kColumns], float (&sum)[kRows][kColumns]) {
#pragma unroll
    for (int i = 0; i < kRows; ++i)
#pragma unroll
      for (int j = 0; j < kColumns; ++j) sum[i][j] += fabsf(a[0][i] - b[0][j]);
  }
};

// a: weight, b: the other row, own: the result's row. sign(own - b) * weight is added.
struct AbsoluteGradient {
  static constexpr bool kOwn = true;
  static constexpr int kLeft = 1, kRight = 1, kUnroll = 2;
  template <int kRows, int kColumns>
  static __device__ void fold(const float (&a)[1][kRows], const float (&b)[1][kColumns],
                              const float (&own)[kRows][kColumns], float (&sum)[kRows][kColumns]) {
#pragma unroll
    for (int i = 0; i < kRows; ++i)
#pragma unroll
      for (int j = 0; j < kColumns; ++j) {
        const float difference = own[i][j] - b[0][j];
        const int sign = __float_as_int(difference) & static_cast<int>(0x80000000u);
        if (difference != 0.0f) sum[i][j] += __int_as_float(__float_as_int(a[0][i]) ^ sign);
      }
  }
};

__device__ inline float square_of(float x, float y) { return __fmaf_rn(x, x, y * y); }

// Whether all squares are in the normal range is asked after the fact, so that nothing waits for the branch.
struct ModulusDistance {
  static constexpr bool kOwn = false;
  static constexpr int kLeft = 2, kRight = 2, kUnroll = 1;
  template <int kRows, int kColumns>
  static __device__ void fold(const float (&a)[2][kRows], const float (&b)[2][kColumns],
                              const float (&)[kRows][kColumns], float (&sum)[kRows][kColumns]) {
    float square[kRows][kColumns], root[kRows][kColumns];
    unsigned excess = 0;
#pragma unroll
    for (int i = 0; i < kRows; ++i)
#pragma unroll
      for (int j = 0; j < kColumns; ++j) {
        square[i][j] = square_of(a[0][i] - b[0][j], a[1][i] - b[1][j]);
        excess = larger(excess, excess_of(square[i][j]));
        root[i][j] = normal_root(square[i][j]).root;
      }
    if (!are_in_normal_range(excess))
#pragma unroll
      for (int i = 0; i < kRows; ++i)
#pragma unroll
        for (int j = 0; j < kColumns; ++j) root[i][j] = any_root(square[i][j]);
#pragma unroll
    for (int i = 0; i < kRows; ++i)
#pragma unroll
      for (int j = 0; j < kColumns; ++j) sum[i][j] += root[i][j];
  }
};

// A block's threads, and each one's results.
// kDepth: of a slab.
template <int kMicroRowsOf, int kThreadRowsOf, int kMicroColumnsOf, int kThreadColumnsOf, int kDepthOf>
struct Shape {
  static constexpr int kMicroRows = kMicroRowsOf, kThreadRows = kThreadRowsOf;
  static constexpr int kMicroColumns = kMicroColumnsOf, kThreadColumns = kThreadColumnsOf, kDepth = kDepthOf;
  static constexpr int kBlocks = 1;  // that a multiprocessor has at least
};

template <typename Op, typename S, bool kLeftDepthMajor, bool kRightDepthMajor>
struct Tile : S {
  using S::kDepth, S::kMicroColumns, S::kMicroRows, S::kThreadColumns, S::kThreadRows;
  static constexpr int kThreads = kThreadRows * kThreadColumns, kStages = 3;
  static constexpr int kRows = kMicroRows * kThreadRows, kColumns = kMicroColumns * kThreadColumns;
  static constexpr bool kFours = false;  // whether a thread's results of a row are four neighbours, whatever operands
  using Left = Slab<kLeftDepthMajor, Op::kLeft, kMicroRows, kThreadRows, kDepth>;
  using Right = Slab<kRightDepthMajor, Op::kRight, kMicroColumns, kThreadColumns, kDepth>;
  static constexpr int kSlabFloats = Left::kFloats + Right::kFloats, kSharedFloats = kStages * kSlabFloats;
  using Sums = float[kMicroRows][kMicroColumns];

  // A warp is 4 x 8 threads, in such an order that every lane's word of the left operand is also that of the lane two
  // further on, and its word of the right one that of its neighbour: then shared memory answers a warp's loads of 16
  // bytes by two accesses, and not by four.
  static_assert(kThreadColumns == 8 && kThreads % 32 == 0);
  static __device__ int thread_row() {
    return static_cast<int>(threadIdx.x / 32 * 4 + threadIdx.x / 16 % 2 * 2 + threadIdx.x % 2);
  }
  static __device__ int thread_column() { return static_cast<int>(threadIdx.x / 2 % 8); }

  static __device__ int row(int m) { return Left::index(thread_row(), m); }
  static __device__ int column(int, int m) { return Right::index(thread_column(), m); }

  static __device__ void fold_four(const float* left, const float* right, int depth, const Sums& own, Sums& sum) {
    float a[4][Op::kLeft][kMicroRows], b[4][Op::kRight][kMicroColumns];
    Left::read(left, thread_row(), depth, a);
    Right::read(right, thread_column(), depth, b);
#pragma unroll
    for (int d = 0; d < 4; ++d) Op::fold(a[d], b[d], own, sum);
  }

  // Adds to sum. shared: kSharedFloats, 16-byte aligned, free again after the block's next barrier, but for what
  // left_sum reads. kLeftSums: whether it is wanted.
  template <bool kLeftSums>
  static __device__ void fold(float* shared, const Operand& left, int first_row, const Operand& right, int first_column,
                              int depths, const Sums& own, Sums& sum) {
    float left_sum = 0.0f;  // of a row each of the first threads
    const int slabs = (depths + kDepth - 1) / kDepth;
    const typename Left::template Copies<kThreads> from_left(left, first_row);
    const typename Right::template Copies<kThreads> from_right(right, first_column);
    const auto fetch = [&](int slab, float* to) {
      if (slab < slabs) {
        from_left.start(to, slab * kDepth);
        from_right.start(to + Left::kFloats, slab * kDepth);
      }
      __pipeline_commit();  // also of nothing, so that a slab's number tells how many are younger
    };
    float *now = shared, *next = shared + (kStages - 1) * kSlabFloats;  // places of this slab, and of the youngest
    const auto advance = [&](float* place) {
      return place == shared + (kStages - 1) * kSlabFloats ? shared : place + kSlabFloats;
    };
    for (int slab = 0; slab < kStages - 1; ++slab) fetch(slab, shared + slab * kSlabFloats);
    for (int slab = 0; slab < slabs; ++slab, now = advance(now), next = advance(next)) {
      __pipeline_wait_prior(kStages - 2);
      __syncthreads();                  // everybody's part of this slab has come, and everybody is done with the one
      fetch(slab + kStages - 1, next);  // before, whose place the youngest takes
      const float *a = now, *b = now + Left::kFloats;
      const int count = depths - slab * kDepth < kDepth ? depths - slab * kDepth : kDepth;
      if constexpr (kLeftSums)
        if (threadIdx.x < kRows) {
          float x[kDepth];
#pragma unroll
          for (int depth = 0; depth < kDepth; ++depth) x[depth] = Left::at(a, 0, threadIdx.x, depth);
#pragma unroll
          for (int depth = 0; depth < kDepth; ++depth)
            if (depth < count) left_sum += x[depth];
        }
      if (count == kDepth) {
#pragma unroll Op::kUnroll
        for (int depth = 0; depth < kDepth; depth += 4) fold_four(a, b, depth, own, sum);
        continue;
      }
      int depth = 0;
#pragma unroll 1
      for (; depth + 4 <= count; depth += 4) fold_four(a, b, depth, own, sum);
#pragma unroll 1
      for (; depth < count; ++depth) {
        float x[Op::kLeft][kMicroRows], y[Op::kRight][kMicroColumns];
#pragma unroll
        for (int part = 0; part < Op::kLeft; ++part)
#pragma unroll
          for (int m = 0; m < kMicroRows; ++m) x[part][m] = Left::at(a, part, row(m), depth);
#pragma unroll
        for (int part = 0; part < Op::kRight; ++part)
#pragma unroll
          for (int m = 0; m < kMicroColumns; ++m) y[part][m] = Right::at(b, part, column(0, m), depth);
        Op::fold(x, y, own, sum);
      }
    }
    __pipeline_wait_prior(0);
    if constexpr (kLeftSums) {
      __syncthreads();
      if (threadIdx.x < kRows) shared[threadIdx.x] = left_sum;
      __syncthreads();
    }
  }

  // Of a row of the left operand, over all depths, in their order.
  static __device__ float left_sum(const float* shared, int row) { return shared[row]; }
};

}  // namespace frugal::cuda
