// A block's tile of a product whose operands are given element by element, as whoever makes or gathers them likes.
#pragma once

#include <cstdint>

namespace frugal::cuda {

// Rows and columns of a tile: of the left operand 128; of the right one 104, so that a hundred, a usual length of
// projected rows, wastes little. A thread has eight by eight results, in two neighbourhoods of four each way: its words
// in shared memory lie beside those of its neighbours.
struct ProductTile {
  static constexpr int kThreadRows = 16, kThreadColumns = 13, kThreads = kThreadRows * kThreadColumns;
  static constexpr int kMicro = 8, kRows = kMicro * kThreadRows, kColumns = kMicro * kThreadColumns;
  static constexpr int kDepth = 8;  // of a slab
  static constexpr int kLeftPitch = kRows + 4, kRightPitch = kColumns + 4;
  static constexpr int kLefts = (kRows * kDepth + kThreads - 1) / kThreads;  // that a thread fetches of a slab
  static constexpr int kRights = (kColumns * kDepth + kThreads - 1) / kThreads;
  using Sums = float[kMicro][kMicro];
  using Lefts = float[kLefts];

  struct Slab {
    float left[kDepth][kLeftPitch], right[kDepth][kRightPitch];
  };

  // Which row of the tile is a thread's m-th, and which column.
  static __device__ int row(int m) {
    return m / 4 * (kRows / 2) + 4 * (static_cast<int>(threadIdx.x) / kThreadColumns) + m % 4;
  }
  static __device__ int column(int m) {
    return m / 4 * (kColumns / 2) + 4 * (static_cast<int>(threadIdx.x) % kThreadColumns) + m % 4;
  }

  // Calls get(k, row, depth) for what a thread fetches of the left operand, whose depths are those of neighbours.
  template <typename Get>
  static __device__ void for_lefts(int first_depth, const Get& get) {
#pragma unroll
    for (int k = 0; k < kLefts; ++k) {
      const int i = k * kThreads + threadIdx.x;
      if (i < kRows * kDepth) get(k, i / kDepth, first_depth + i % kDepth);
    }
  }

  // Adds sum over depth of left * right. fetch_left(first depth, Lefts) brings, by for_lefts, what is a thread's of a
  // slab; right(depth, column) is one element, asked for by neighbours in depth if kRightByDepth, else in columns. Both
  // give 0 beyond their ends. slabs: two, in shared memory, free for others behind the block's next barrier.
  template <bool kRightByDepth, typename Left, typename Right>
  static __device__ void fold(Slab* slabs, int depths, const Left& fetch_left, const Right& right, Sums& sum) {
    float a[kLefts], b[kRights];
    const auto fetch = [&](int first) {
      fetch_left(first, a);
#pragma unroll
      for (int k = 0; k < kRights; ++k) {
        const int i = k * kThreads + threadIdx.x;
        if (i < kColumns * kDepth)
          b[k] = kRightByDepth ? right(first + i % kDepth, i / kDepth) : right(first + i / kColumns, i % kColumns);
      }
    };
    const auto put = [&](Slab& to) {
      for_lefts(0, [&](int k, int row, int depth) { to.left[depth][row] = a[k]; });
#pragma unroll
      for (int k = 0; k < kRights; ++k) {
        const int i = k * kThreads + threadIdx.x;
        if (i < kColumns * kDepth)
          (kRightByDepth ? to.right[i % kDepth][i / kDepth] : to.right[i / kColumns][i % kColumns]) = b[k];
      }
    };
    fetch(0);
    __syncthreads();  // whoever had the slabs before is done with them
    put(slabs[0]);
    __syncthreads();
    for (int first = 0, turn = 0; first < depths; first += kDepth, turn ^= 1) {
      const bool more = first + kDepth < depths;
      if (more) fetch(first + kDepth);
      const Slab& now = slabs[turn];
#pragma unroll
      for (int d = 0; d < kDepth; ++d) {
        float x[kMicro], y[kMicro];
#pragma unroll
        for (int m = 0; m < kMicro; m += 4) {
          const float4 of_row = *reinterpret_cast<const float4*>(&now.left[d][row(m)]);
          const float4 of_column = *reinterpret_cast<const float4*>(&now.right[d][column(m)]);
          x[m] = of_row.x, x[m + 1] = of_row.y, x[m + 2] = of_row.z, x[m + 3] = of_row.w;
          y[m] = of_column.x, y[m + 1] = of_column.y, y[m + 2] = of_column.z, y[m + 3] = of_column.w;
        }
#pragma unroll
        for (int i = 0; i < kMicro; ++i)
#pragma unroll
          for (int j = 0; j < kMicro; ++j) sum[i][j] = __fmaf_rn(x[i], y[j], sum[i][j]);
      }
      if (more) put(slabs[turn ^ 1]);
      __syncthreads();
    }
  }
};

}  // namespace frugal::cuda
