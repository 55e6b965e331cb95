#include <string>

#include "device/cuda_check.h"
#include "kernels/cuda/matrix_kernels.h"

namespace frugal::cuda {
namespace {

constexpr int kWarp = 32;
constexpr unsigned kAll = 0xffffffffu;
constexpr int kPiece = 8;  // edges of a block that multiplies, in the order of rows: those of a row read it together
constexpr int kThreads = 256, kWarps = kThreads / kWarp;
constexpr int kTimesRows = 4;     // rows of a matrix that a warp multiplies at a time ...
constexpr int kTimesVectors = 4;  // ... by as many vectors
constexpr int kBackVectors = 8;   // vectors that a transposed matrix is multiplied by at a time
constexpr int kStripWarps = kStrips / kWarp;
constexpr int kSquares = 32;  // occurrences whose squares a block brings together at a time
constexpr int kStateThreads = 128;

__device__ inline float warp_sum(float x) {
#pragma unroll
  for (int other = kWarp / 2; other > 0; other /= 2) x += __shfl_xor_sync(kAll, x, other);
  return x;
}

// The end of the edges, in the order of rows, that have the row of the edge at `begin`.
__device__ inline int end_of_run(const MatrixRows& m, int begin, int last) {
  const std::int32_t slot = m.slot[m.occurrence[begin]];
  int end = begin + 1;
  while (end < last && m.slot[m.occurrence[end]] == slot) ++end;
  return end;
}

// The vector number `k`, counted over the edges in the order of rows. In 32 bits, where division is quick.
__device__ inline std::int64_t vector_of(const MatrixRows& m, int k, int vectors) {
  const int i = k / vectors;
  return std::int64_t{m.occurrence[i]} * vectors + (k - i * vectors);
}

// A warp makes kTimesRows elements of the products of a block's edges.
__global__ void __launch_bounds__(kThreads, 3)
    times_kernel(MatrixRows m, const float* x, int vectors, float* y, int tiles) {
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const std::int64_t row = (static_cast<int>(blockIdx.x) % tiles * kWarps + warp) * kTimesRows;
  if (row >= m.height) return;
  const int edges = static_cast<int>(m.edges), first = static_cast<int>(blockIdx.x) / tiles * kPiece;
  const int last = first + kPiece < edges ? first + kPiece : edges;
  for (int begin = first, end; begin < last; begin = end) {
    end = end_of_run(m, begin, last);
    const float* from[kTimesRows];
    const float* matrix = m.matrix(m.slot[m.occurrence[begin]]);
#pragma unroll
    for (int r = 0; r < kTimesRows; ++r)  // beyond the last one: that again
      from[r] = matrix + (row + r < m.height ? row + r : m.height - 1) * m.width;
    for (int k = begin * vectors; k < end * vectors; k += kTimesVectors) {
      const float* vector[kTimesVectors];
      float* to[kTimesVectors];
      float sum[kTimesRows][kTimesVectors] = {};
#pragma unroll
      for (int c = 0; c < kTimesVectors; ++c) {
        const std::int64_t v = vector_of(m, k + c < end * vectors ? k + c : end * vectors - 1, vectors);
        vector[c] = x + v * m.width;
        to[c] = y + v * m.height + row;
      }
#pragma unroll 2
      for (std::int64_t j = lane; j < m.width; j += kWarp) {
        float a[kTimesRows], b[kTimesVectors];
#pragma unroll
        for (int r = 0; r < kTimesRows; ++r) a[r] = from[r][j];
#pragma unroll
        for (int c = 0; c < kTimesVectors; ++c) b[c] = vector[c][j];
#pragma unroll
        for (int r = 0; r < kTimesRows; ++r)
#pragma unroll
          for (int c = 0; c < kTimesVectors; ++c) sum[r][c] = __fmaf_rn(a[r], b[c], sum[r][c]);
      }
#pragma unroll
      for (int r = 0; r < kTimesRows; ++r)
#pragma unroll
        for (int c = 0; c < kTimesVectors; ++c) {
          const float total = warp_sum(sum[r][c]);
          if (lane == 0 && row + r < m.height && k + c < end * vectors) to[c][r] = total;
        }
    }
  }
}

// A block makes kWarp elements of the products of its edges by transposed matrices: its warps share out the depth.
__global__ void __launch_bounds__(kThreads)
    back_kernel(MatrixRows m, const float* x, int vectors, float* y, int tiles) {
  __shared__ float parts[kWarps][kBackVectors][kWarp];
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const std::int64_t column = static_cast<int>(blockIdx.x) % tiles * kWarp + lane;
  const int edges = static_cast<int>(m.edges), first = static_cast<int>(blockIdx.x) / tiles * kPiece;
  const int last = first + kPiece < edges ? first + kPiece : edges;
  for (int begin = first, end; begin < last; begin = end) {
    end = end_of_run(m, begin, last);
    const float* matrix = m.matrix(m.slot[m.occurrence[begin]]) + (column < m.width ? column : m.width - 1);
    for (int k = begin * vectors; k < end * vectors; k += kBackVectors) {
      const float* vector[kBackVectors];
      float sum[kBackVectors] = {};
#pragma unroll
      for (int c = 0; c < kBackVectors; ++c)  // beyond the last one: that again
        vector[c] = x + vector_of(m, k + c < end * vectors ? k + c : end * vectors - 1, vectors) * m.height;
#pragma unroll 4
      for (std::int64_t i = warp; i < m.height; i += kWarps) {
        const float a = matrix[i * m.width];
#pragma unroll
        for (int c = 0; c < kBackVectors; ++c) sum[c] = __fmaf_rn(a, vector[c][i], sum[c]);
      }
      __syncthreads();  // the last ones have been used
#pragma unroll
      for (int c = 0; c < kBackVectors; ++c) parts[warp][c][lane] = sum[c];
      __syncthreads();
      if (k + warp < end * vectors && column < m.width) {
        float total = 0.0f;
#pragma unroll
        for (int w = 0; w < kWarps; ++w) total += parts[w][warp][lane];
        y[vector_of(m, k + warp, vectors) * m.width + column] = total;
      }
    }
  }
}
static_assert(kWarps == kBackVectors, "each warp brings one vector's parts together");

// Which strip is a thread's; threads beyond the width have none.
struct Place {
  std::int64_t u, tile, row, column;

  __device__ Place(const MatrixRows& m, unsigned tiles) : u(blockIdx.x / tiles), tile(blockIdx.x % tiles) {
    const unsigned across = static_cast<unsigned>(tiles_across(m.width));
    row = blockIdx.x % tiles / across * kStrip;
    column = blockIdx.x % tiles % across * kStrips + threadIdx.x;
  }
};

// A block takes the squares of all gradients by one tile.
__global__ void __launch_bounds__(kStrips, 5)
    squares_kernel(MatrixRows m, MatrixGradients gradients, MatrixPenalty penalty, float* squares, float* amounts,
                   unsigned tiles) {
  __shared__ float parts[kStripWarps][kSquares];
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const Place at(m, tiles);
  const std::int64_t begin = m.offset[at.u], end = m.offset[at.u + 1];
  if (begin == end) {
    if (amounts != nullptr && threadIdx.x == 0) amounts[at.tile * m.count + at.u] = 0.0f;
    return;
  }
  const auto bring_together = [&](int i) {
    float sum = 0.0f;
#pragma unroll
    for (int w = 0; w < kStripWarps; ++w) sum += parts[w][i];
    return sum;
  };
  const bool mine = at.column < m.width;
  const MatrixStrip strip(m, at.u, at.row, mine ? at.column : 0, penalty);
  if (amounts != nullptr) {
    const float sum = warp_sum(mine ? strip.amount(penalty) : 0.0f);
    if (lane == 0) parts[warp][0] = sum;
    __syncthreads();
    if (threadIdx.x == 0) amounts[at.tile * m.count + at.u] = bring_together(0);
    __syncthreads();
  }
  for (std::int64_t first = begin; first < end; first += kSquares) {
    const int count = static_cast<int>(end - first < kSquares ? end - first : kSquares);
#pragma unroll 2
    for (int i = 0; i < count; ++i) {
      const float sum = warp_sum(mine ? strip.square(gradients, m.occurrence[first + i]) : 0.0f);
      if (lane == 0) parts[warp][i] = sum;
    }
    __syncthreads();
    if (threadIdx.x < count) squares[at.tile * m.edges + first + threadIdx.x] = bring_together(threadIdx.x);
    __syncthreads();
  }
}

struct Entries {
  MatrixGradients entry[kMaxEntries];
  int count;
};

// A thread adds up the state of a row.
__global__ void __launch_bounds__(kStateThreads)
    states_kernel(MatrixRows m, int entries, const float* means, float* deviations) {
  const std::int64_t u = static_cast<std::int64_t>(blockIdx.x) * kStateThreads + threadIdx.x;
  if (u >= m.count || m.offset[u] == m.offset[u + 1]) return;
  float* const record = m.matrix(u);
  float state = record[m.elements()];
  for (int e = 0; e < entries; ++e) {
#pragma unroll 8
    for (std::int64_t o = m.offset[u]; o < m.offset[u + 1]; ++o) state += means[e * m.edges + o];
    deviations[e * m.count + u] = __fsqrt_rn(state) + 1e-10f;
  }
  record[m.elements()] = state;
}

__global__ void __launch_bounds__(kStrips)
    move_kernel(MatrixRows m, Entries entries, MatrixPenalty penalty, float learning_rate, const float* deviations,
                unsigned tiles) {
  const Place at(m, tiles);
  const std::int64_t begin = m.offset[at.u], end = m.offset[at.u + 1];
  if (begin == end || at.column >= m.width) return;
  MatrixStrip strip(m, at.u, at.row, at.column, penalty);
#pragma unroll
  for (int e = 0; e < kMaxEntries; ++e) {
    if (e == entries.count) break;
    const float times = -learning_rate / deviations[e * m.count + at.u];
#pragma unroll 2
    for (std::int64_t o = begin; o < end; ++o) strip.add(entries.entry[e], m.occurrence[o], times);
  }
  strip.store();
}

cudaStream_t stream_of(const Launch& launch) { return reinterpret_cast<cudaStream_t>(launch.stream); }

unsigned pieces(std::int64_t count, std::int64_t size) { return static_cast<unsigned>((count + size - 1) / size); }

}  // namespace

void matrix_products(const MatrixRows& m, bool transposed, const float* x, std::int64_t vectors, float* y,
                     const Launch& launch) {
  if (m.edges == 0) return;
  const unsigned tiles = transposed ? pieces(m.width, kWarp) : pieces(m.height, kWarps * kTimesRows);
  const unsigned blocks = pieces(m.edges, kPiece) * tiles;
  const int each = static_cast<int>(vectors), across = static_cast<int>(tiles);
  if (transposed)
    back_kernel<<<blocks, kThreads, 0, stream_of(launch)>>>(m, x, each, y, across);
  else
    times_kernel<<<blocks, kThreads, 0, stream_of(launch)>>>(m, x, each, y, across);
  cuda_check(cudaGetLastError(), "launching the products of " + std::to_string(m.edges) + " edges");
}

void matrix_squares(const MatrixRows& m, const MatrixGradients& gradients, const MatrixPenalty& penalty, float* squares,
                    float* amounts, const Launch& launch) {
  if (m.count == 0) return;
  const auto tiles = static_cast<unsigned>(matrix_tiles(m.height, m.width));
  const unsigned blocks = static_cast<unsigned>(m.count) * tiles;
  squares_kernel<<<blocks, kStrips, 0, stream_of(launch)>>>(m, gradients, penalty, squares, amounts, tiles);
  cuda_check(cudaGetLastError(), "launching the squares of " + std::to_string(m.count) + " matrices");
}

void update_matrices(const MatrixRows& m, const MatrixGradients* entries, int count, const float* means,
                     const MatrixPenalty& penalty, float learning_rate, float* deviations, const Launch& launch) {
  if (m.count == 0) return;
  const auto tiles = static_cast<unsigned>(matrix_tiles(m.height, m.width));
  const unsigned few = pieces(m.count, kStateThreads), blocks = static_cast<unsigned>(m.count) * tiles;
  Entries all{};
  all.count = count;
  for (int e = 0; e < count; ++e) all.entry[e] = entries[e];
  states_kernel<<<few, kStateThreads, 0, stream_of(launch)>>>(m, count, means, deviations);
  move_kernel<<<blocks, kStrips, 0, stream_of(launch)>>>(m, all, penalty, learning_rate, deviations, tiles);
  cuda_check(cudaGetLastError(), "launching the update of " + std::to_string(m.count) + " matrices");
}

}  // namespace frugal::cuda
