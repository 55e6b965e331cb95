#include "kernels/cuda/projected_pairs.h"

#include <string>

#include "device/cuda_check.h"
#include "kernels/cuda/product_tile.cuh"

namespace frugal::cuda {
namespace {

using Term = PairTerm<PairKind::kAbsolute>;

constexpr int kThreads = ProductTile::kThreads, kTileRows = ProductTile::kRows, kTileColumns = ProductTile::kColumns;
constexpr int kMicro = ProductTile::kMicro;
constexpr int kShares = 2, kShareThreads = 128;  // of a chunk's negatives, and threads of each: for one edge
constexpr int kAhead = 8;                        // projected negatives that a thread loads before it uses them

// A block projects a tile of a chunk's negatives for a run, and compares what comes of it with the run's queries.
// Blocks of occurrences that begin no run have nothing to do.
__global__ void __launch_bounds__(kThreads, 2)
    project_kernel(ProjectedPairs p, const float* candidates, const float* query, float* projected, float* distances,
                   int tiles) {
  __shared__ alignas(16) ProductTile::Slab slabs[2];
  __shared__ float parts[ProductTile::kThreadColumns][kTileRows];
  const MatrixRows& m = p.m;
  const std::int64_t begin = static_cast<std::int64_t>(blockIdx.x) / tiles;
  if (!p.begins(begin)) return;
  const std::int64_t end = p.end_of_run(begin);
  const int height = static_cast<int>(m.height), width = static_cast<int>(m.width);
  const int first_row = static_cast<int>(blockIdx.x) % tiles * kTileRows;
  const int rows = static_cast<int>(p.negatives) - first_row;
  const float* const matrix = m.matrix(m.slot[m.occurrence[begin]]);
  const float* const from = candidates + (p.chunk(begin) * p.negatives + first_row) * height;
  float* const to = projected + (begin * p.negatives + first_row) * width;
  for (int first_column = 0; first_column < width; first_column += kTileColumns) {
    const int columns = width - first_column;
    ProductTile::Sums sum = {};
    ProductTile::fold<false>(
        slabs, height,
        [&](int first, ProductTile::Lefts& a) {
          ProductTile::for_lefts(first, [&](int k, int row, int depth) {
            a[k] = row < rows && depth < height ? from[row * height + depth] : 0.0f;
          });
        },
        [&](int depth, int column) {
          return depth < height && column < columns ? matrix[depth * width + first_column + column] : 0.0f;
        },
        sum);
#pragma unroll
    for (int i = 0; i < kMicro; ++i)
#pragma unroll
      for (int j = 0; j < kMicro; j += 4) {
        const int row = ProductTile::row(i), column = ProductTile::column(j);
        float* const at = to + row * width + first_column + column;
        if (row < rows && column + 4 <= columns && width % 4 == 0) {
          *reinterpret_cast<float4*>(at) = {sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]};
          continue;
        }
#pragma unroll
        for (int k = 0; k < 4; ++k)
          if (row < rows && column + k < columns) at[k] = sum[i][j + k];
      }
    for (std::int64_t o = begin; o < end; ++o) {
      const float* const own = query + m.occurrence[o] * m.width + first_column;
      float partial[kMicro] = {};
#pragma unroll
      for (int j = 0; j < kMicro; ++j) {
        const int column = ProductTile::column(j);
        if (column >= columns) continue;
        const float of_query = own[column];
#pragma unroll
        for (int i = 0; i < kMicro; ++i) {
          const float difference = of_query - sum[i][j];
          partial[i] += Term::distance(&difference);
        }
      }
      float* const part = parts[threadIdx.x % ProductTile::kThreadColumns];
#pragma unroll
      for (int i = 0; i < kMicro; ++i) part[ProductTile::row(i)] = partial[i];
      __syncthreads();
      if (threadIdx.x < kTileRows && threadIdx.x < rows) {
        float* const distance = distances + m.occurrence[o] * p.negatives + first_row + threadIdx.x;
        float total = first_column == 0 ? 0.0f : *distance;
#pragma unroll
        for (int c = 0; c < ProductTile::kThreadColumns; ++c) total += parts[c][threadIdx.x];
        *distance = total;
      }
      __syncthreads();
    }
  }
}
static_assert(kTileRows <= kThreads);

// A block takes an occurrence; its threads take columns, and shares of the negatives.
__global__ void __launch_bounds__(kShares* kShareThreads)
    differentiate_kernel(ProjectedPairs p, const float* query, const float* slope, const float* projected,
                         float* gradients, float* of_query) {
  __shared__ float parts[kShares][kShareThreads];
  const MatrixRows& m = p.m;
  const std::int64_t begin = p.begin_of_run(blockIdx.x);
  const std::int32_t edge = m.occurrence[blockIdx.x];
  const int width = static_cast<int>(m.width), negatives = static_cast<int>(p.negatives);
  const int share = threadIdx.x / kShareThreads, thread = threadIdx.x % kShareThreads;
  const int each = (negatives + kShares - 1) / kShares, first = share * each;
  const int last = first + each < negatives ? first + each : negatives;
  const float* const weight = slope + std::int64_t{edge} * negatives;
  const std::int64_t down = p.chunk_size * m.width;
  for (int left = 0; left < width; left += kShareThreads) {
    const int column = left + thread;
    float sum = 0.0f;
    if (column < width) {
      const float own = query[std::int64_t{edge} * width + column];
      const float* const from = projected + begin * negatives * width + column;
      float* const to = gradients + p.place(edge, 0) + column;
      for (int n = first; n < last; n += kAhead) {
        float difference[kAhead], of_pair[kAhead];
#pragma unroll
        for (int k = 0; k < kAhead; ++k) {
          const int at = n + k < last ? n + k : last - 1;
          difference[k] = own - from[at * width];
          of_pair[k] = weight[at];
        }
#pragma unroll
        for (int k = 0; k < kAhead; ++k) {
          if (n + k >= last) break;
          float pull = 0.0f;
          Term::pull(&difference[k], -of_pair[k], &pull);
          to[(n + k) * down] = -pull;
          sum += pull;
        }
      }
    }
    parts[share][thread] = sum;
    __syncthreads();
    if (share == 0 && column < width) {
      float total = 0.0f;
#pragma unroll
      for (int s = 0; s < kShares; ++s) total += parts[s][thread];
      of_query[std::int64_t{edge} * width + column] = total;
    }
    __syncthreads();
  }
}

// A block adds up a tile of the gradients by a chunk's negatives, over the runs of one stripe. A run has one matrix, so
// its edges' gradients are added before they meet it.
__global__ void __launch_bounds__(kThreads, 2)
    project_back_kernel(ProjectedPairs p, const float* gradients, float* of_candidates, int row_tiles,
                        int column_tiles) {
  __shared__ alignas(16) ProductTile::Slab slabs[2];
  __shared__ const float* of_edge[ProjectedPairs::kStripe];   // gradients by the tile; null of other chunks' edges
  __shared__ const float* matrices[ProjectedPairs::kStripe];  // from the tile's columns of the product on
  const MatrixRows& m = p.m;
  const int stripes = static_cast<int>(p.stripes()), number = static_cast<int>(blockIdx.x);
  const int tile = number % (row_tiles * column_tiles), stripe = number / (row_tiles * column_tiles) % stripes;
  const int chunk = number / (row_tiles * column_tiles) / stripes;
  const int height = static_cast<int>(m.height), width = static_cast<int>(m.width);
  const int first_row = tile / column_tiles * kTileRows, first_column = tile % column_tiles * kTileColumns;
  const int rows = static_cast<int>(p.negatives) - first_row, columns = height - first_column;
  const std::int64_t first = std::int64_t{stripe} * p.kStripe;
  const int down = static_cast<int>(p.chunk_size * m.width);  // a tile's rows are far less than 2^31 floats
  const int count = static_cast<int>(m.edges - first < p.kStripe ? m.edges - first : p.kStripe);
  if (threadIdx.x < count) {
    const std::int32_t edge = m.occurrence[first + threadIdx.x];
    of_edge[threadIdx.x] = p.chunk(first + threadIdx.x) == chunk ? gradients + p.place(edge, first_row) : nullptr;
    matrices[threadIdx.x] = m.matrix(m.slot[edge]) + first_column * width;
  }
  __syncthreads();
  ProductTile::Sums sum = {};
  for (int begin = 0, end; begin < count; begin = end) {
    end = begin + 1;
    if (of_edge[begin] == nullptr) continue;
    const float* const matrix = matrices[begin];
    while (end < count && of_edge[end] != nullptr && matrices[end] == matrix) ++end;
    ProductTile::fold<true>(
        slabs, width,
        [&](int first, ProductTile::Lefts& a) {
          ProductTile::for_lefts(first, [&](int k, int row, int depth) {
            a[k] = row < rows && depth < width ? of_edge[begin][row * down + depth] : 0.0f;
          });
          for (int e = begin + 1; e < end; ++e)
            ProductTile::for_lefts(first, [&](int k, int row, int depth) {
              if (row < rows && depth < width) a[k] += of_edge[e][row * down + depth];
            });
        },
        [&](int depth, int column) {
          return depth < width && column < columns ? matrix[column * width + depth] : 0.0f;
        },
        sum);
  }
  float* const to = of_candidates + ((std::int64_t{chunk} * stripes + stripe) * p.negatives + first_row) * height;
#pragma unroll
  for (int i = 0; i < kMicro; ++i)
#pragma unroll
    for (int j = 0; j < kMicro; ++j) {
      const int row = ProductTile::row(i), column = ProductTile::column(j);
      if (row < rows && column < columns) to[row * height + first_column + column] = sum[i][j];
    }
}

cudaStream_t stream_of(const Launch& launch) { return reinterpret_cast<cudaStream_t>(launch.stream); }

int tiles_of(std::int64_t count, int size) { return static_cast<int>((count + size - 1) / size); }

}  // namespace

void project(const ProjectedPairs& p, const float* candidates, const float* query, float* projected, float* distances,
             const Launch& launch) {
  if (p.m.edges == 0 || p.negatives == 0) return;
  const int tiles = tiles_of(p.negatives, kTileRows);
  const auto blocks = static_cast<unsigned>(p.m.edges * tiles);
  project_kernel<<<blocks, kThreads, 0, stream_of(launch)>>>(p, candidates, query, projected, distances, tiles);
  cuda_check(cudaGetLastError(), "launching projections for " + std::to_string(p.m.edges) + " edges");
}

void differentiate_projected(const ProjectedPairs& p, const float* query, const float* slope, const float* projected,
                             float* gradients, float* of_query, const Launch& launch) {
  if (p.m.edges == 0) return;
  constexpr int threads = kShares * kShareThreads;
  const auto blocks = static_cast<unsigned>(p.m.edges);
  differentiate_kernel<<<blocks, threads, 0, stream_of(launch)>>>(p, query, slope, projected, gradients, of_query);
  cuda_check(cudaGetLastError(), "launching projections' gradients of " + std::to_string(p.m.edges) + " edges");
}

void project_back(const ProjectedPairs& p, const float* gradients, float* of_candidates, const Launch& launch) {
  if (p.m.edges == 0 || p.negatives == 0) return;
  const int rows = tiles_of(p.negatives, kTileRows), columns = tiles_of(p.m.height, kTileColumns);
  const auto blocks = static_cast<unsigned>(p.chunks() * p.stripes() * rows * columns);
  project_back_kernel<<<blocks, kThreads, 0, stream_of(launch)>>>(p, gradients, of_candidates, rows, columns);
  cuda_check(cudaGetLastError(), "launching gradients by negatives of " + std::to_string(p.m.edges) + " edges");
}

}  // namespace frugal::cuda
