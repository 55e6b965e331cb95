#include <string>

#include "base/device/cuda_check.h"
#include "base/device/warp_sums.cuh"
#include "models/cuda/matrix_kernels.h"

namespace frugal::cuda {
namespace {

constexpr int kWarp = 32;
constexpr int kPiece = 4;  // edges of a block, in the order of rows: those of a row read it together
constexpr int kThreads = 128, kWarps = kThreads / kWarp;
constexpr int kTimesRows = 4, kTimesColumns = 8;  // of a matrix that a lane holds: rows, and columns a warp apart
constexpr int kTimesWidth = kTimesColumns * kWarp;
constexpr int kBackRows = 32;             // of a column that a lane holds
constexpr int kBackHeight = kBackRows * kWarps;
constexpr int kBackVectors = kWarps;      // that a block brings together at a time, a warp each

// A block's edges and where their matrices are, in shared memory.
struct Piece {
  std::int32_t edge[kPiece];
  const float* matrix[kPiece];

  __device__ void fetch(const MatrixRows& m, std::int64_t first, int count) {
    if (threadIdx.x < count) {
      edge[threadIdx.x] = m.occurrence[first + threadIdx.x];
      matrix[threadIdx.x] = m.matrix(m.slot[edge[threadIdx.x]]);
    }
    __syncthreads();
  }
  // The end of the edges that have the matrix of the one at `begin`.
  __device__ int end_of_run(int begin, int count) const {
    int end = begin + 1;
    while (end < count && matrix[end] == matrix[begin]) ++end;
    return end;
  }
  // The vector number k of the piece, of which each edge has as many.
  __device__ std::int64_t vector(int k, int vectors) const {
    const int i = k / vectors;
    return std::int64_t{edge[i]} * vectors + (k - i * vectors);
  }
};

__device__ inline int edges_of_piece(const MatrixRows& m, std::int64_t first) {
  return static_cast<int>(m.edges - first < kPiece ? m.edges - first : kPiece);
}

static_assert(kTimesRows * 8 == kWarp && kBackRows == kWarp);

// A warp makes kTimesRows elements of the products of a block's edges. It holds those rows of a matrix, and each vector
// passes by; of a wider matrix, a part of them after the other.
__global__ void __launch_bounds__(kThreads, 6)
    times_kernel(MatrixRows m, const float* x, int vectors, float* y, int tiles) {
  __shared__ Piece piece;
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, tile = static_cast<int>(blockIdx.x) % tiles;
  const std::int64_t row = std::int64_t{tile * kWarps + warp} * kTimesRows;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) / tiles * kPiece;
  const int count = edges_of_piece(m, first);
  piece.fetch(m, first, count);
  if (row >= m.height) return;
  for (int begin = 0, end; begin < count; begin = end) {
    end = piece.end_of_run(begin, count);
    for (std::int64_t left = 0; left < m.width; left += kTimesWidth) {
      float held[kTimesRows][kTimesColumns];
#pragma unroll
      for (int r = 0; r < kTimesRows; ++r) {  // beyond the last row: that again
        const float* const from = piece.matrix[begin] + (row + r < m.height ? row + r : m.height - 1) * m.width;
#pragma unroll
        for (int c = 0; c < kTimesColumns; ++c) {
          const std::int64_t column = left + lane + c * kWarp;
          held[r][c] = column < m.width ? from[column] : 0.0f;
        }
      }
#pragma unroll 4
      for (int k = begin * vectors; k < end * vectors; ++k) {
        const std::int64_t v = piece.vector(k, vectors);
        float b[kTimesColumns], sum[kTimesRows] = {};
#pragma unroll
        for (int c = 0; c < kTimesColumns; ++c) {
          const std::int64_t column = left + lane + c * kWarp;
          b[c] = column < m.width ? x[v * m.width + column] : 0.0f;
        }
#pragma unroll
        for (int c = 0; c < kTimesColumns; ++c)
#pragma unroll
          for (int r = 0; r < kTimesRows; ++r) sum[r] = __fmaf_rn(held[r][c], b[c], sum[r]);
        const float total = warp_sums(sum);
        const std::int64_t r = row + lane / 8;
        float* const to = y + v * m.height + r;
        if (lane % 8 == 0 && r < m.height) *to = left == 0 ? total : *to + total;
      }
    }
  }
}

// A block makes kWarp elements of the products of its edges by transposed matrices. Its warps share out the depth: each
// lane holds its warp's elements of a column; of a higher matrix, a part of them after the other.
__global__ void __launch_bounds__(kThreads, 6)
    back_kernel(MatrixRows m, const float* x, int vectors, float* y, int tiles) {
  __shared__ Piece piece;
  __shared__ alignas(16) float shares[kWarps][kBackVectors][kBackRows];  // of vectors, a warp's depths each
  __shared__ float parts[kWarps][kBackVectors][kWarp];                   // of products
  float(*const own)[kBackRows] = shares[threadIdx.x / kWarp];
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const std::int64_t column = std::int64_t{static_cast<int>(blockIdx.x) % tiles} * kWarp + lane;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) / tiles * kPiece;
  const int count = edges_of_piece(m, first);
  piece.fetch(m, first, count);
  for (int begin = 0, end; begin < count; begin = end) {
    end = piece.end_of_run(begin, count);
    for (std::int64_t top = 0; top < m.height; top += kBackHeight) {
      const int depth = static_cast<int>(m.height - top < kBackHeight ? m.height - top : kBackHeight);
      const int each = (depth + kWarps - 1) / kWarps, rest = depth - warp * each;
      const int rows = rest < 0 ? 0 : rest < each ? rest : each;  // the warp's, from here on:
      const std::int64_t row = top + warp * each;
      const float* const from = piece.matrix[begin] + row * m.width + (column < m.width ? column : m.width - 1);
      float held[kBackRows];
#pragma unroll
      for (int i = 0; i < kBackRows; ++i) held[i] = i < rows ? from[i * m.width] : 0.0f;
      for (int k = begin * vectors; k < end * vectors; k += kBackVectors) {
        const int there = end * vectors - k < kBackVectors ? end * vectors - k : kBackVectors;
#pragma unroll
        for (int c = 0; c < kBackVectors; ++c)
          own[c][lane] = c < there && lane < rows ? x[piece.vector(k + c, vectors) * m.height + row + lane] : 0.0f;
        __syncthreads();  // and the last ones have been used
#pragma unroll
        for (int c = 0; c < kBackVectors; ++c) {
          if (c == there) break;
          float sum = 0.0f;
#pragma unroll
          for (int i = 0; i < kBackRows; i += 4) {
            if (i >= rows) break;
            const float4 b = *reinterpret_cast<const float4*>(own[c] + i);
            sum = __fmaf_rn(held[i], b.x, sum);
            sum = __fmaf_rn(held[i + 1], b.y, sum);
            sum = __fmaf_rn(held[i + 2], b.z, sum);
            sum = __fmaf_rn(held[i + 3], b.w, sum);
          }
          parts[warp][c][lane] = sum;
        }
        __syncthreads();
        if (warp < there && column < m.width) {
          float total = 0.0f;
#pragma unroll
          for (int w = 0; w < kWarps; ++w) total += parts[w][warp][lane];
          float* const to = y + piece.vector(k + warp, vectors) * m.width + column;
          *to = top == 0 ? total : *to + total;
        }
      }
    }
  }
}

}  // namespace

void matrix_products(const MatrixRows& m, bool transposed, const float* x, std::int64_t vectors, float* y,
                     const Launch& launch) {
  if (m.edges == 0 || vectors == 0) return;
  const auto pieces = [](std::int64_t count, std::int64_t size) {
    return static_cast<unsigned>((count + size - 1) / size);
  };
  const unsigned tiles = transposed ? pieces(m.width, kWarp) : pieces(m.height, kWarps * kTimesRows);
  const unsigned blocks = pieces(m.edges, kPiece) * tiles;
  const int each = static_cast<int>(vectors), across = static_cast<int>(tiles);
  const auto kernel = transposed ? back_kernel : times_kernel;
  const auto stream = reinterpret_cast<cudaStream_t>(launch.stream);
  kernel<<<blocks, kThreads, 0, stream>>>(m, x, each, y, across);
  cuda_check(cudaGetLastError(), "launching the products of " + std::to_string(m.edges) + " edges");
}

}  // namespace frugal::cuda
