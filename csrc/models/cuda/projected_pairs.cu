#include "models/cuda/projected_pairs.h"

#include <string>

#include "base/device/cuda_check.h"
#include "models/cuda/product_tile.cuh"

namespace frugal::cuda {
namespace {

constexpr int kThreads = ProductTile::kThreads, kTileRows = ProductTile::kRows, kTileColumns = ProductTile::kColumns;
constexpr int kMicroRows = ProductTile::kMicroRows, kMicroColumns = ProductTile::kMicroColumns;
constexpr int kDepth = ProductTile::kDepth;
constexpr int kListThreads = 512, kRunsAtOnce = 32, kEdgesAtHand = 8, kEdgesAtOnce = 4;
static_assert(kThreads == 2 * kTileRows);

// Whether four neighbours of rows so far apart are 16 bytes to be loaded at once.
inline bool in_fours(const float* from, std::int64_t stride) {
  return stride % 4 == 0 && reinterpret_cast<std::uintptr_t>(from) % sizeof(float4) == 0;
}

__host__ __device__ inline int pieces_of(std::int64_t count, int size) {
  return static_cast<int>((count + size - 1) / size);
}

// The operands of `project`: negatives by columns of a matrix.
template <bool kFours>
struct NegativesByMatrix {
  using Left = ProductTile::Share<kTileRows, true>;
  using Right = ProductTile::Share<kTileColumns, false>;
  const float* from;  // the negatives at the slab's first depth
  int height, first;
  DepthsOfRows<kTileRows, kFours> negatives;
  DepthsOfColumns<kTileColumns> matrix;

  __device__ NegativesByMatrix(const float* of_negatives, int rows, int depths, const float* of_matrix, int columns,
                               int width)
      : from(of_negatives),
        height(depths),
        negatives(rows, depths),
        matrix(of_matrix + (Right::index(0) < columns ? Right::index(0) : columns - 1), width) {}
  __device__ void load(int slab) {
    first = slab * kDepth;
    negatives.load(from + first, height - first);
    matrix.load(height - first);
  }
  __device__ int depths() const { return height - first; }
  __device__ float4 left(int k) const { return negatives.x[k]; }
  __device__ float4 right(int k) const { return matrix.four(k); }
};

// A block projects a tile of a chunk's negatives for a run, and compares what comes of it with the run's queries.
// Blocks of occurrences that begin no run have nothing to do.
template <bool kFours>
__global__ void __launch_bounds__(kThreads, 3)
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
    using Operands = NegativesByMatrix<kFours>;
    Operands operands(from, rows, height, matrix + first_column, columns, width);
    ProductTile::Sums sum;
    ProductTile::fold<typename Operands::Left, typename Operands::Right>(slabs, pieces_of(height, kDepth), operands,
                                                                         sum);
#pragma unroll
    for (int i = 0; i < kMicroRows; ++i)
#pragma unroll
      for (int j = 0; j < kMicroColumns; j += 2) {
        const int row = ProductTile::row(i), column = ProductTile::column(j);
        float* const at = to + row * width + first_column + column;
        if (row >= rows || column >= columns) continue;
        if (width % 2 == 0) {
          *reinterpret_cast<float2*>(at) = {sum.at(i, j), sum.at(i, j + 1)};
          continue;
        }
        at[0] = sum.at(i, j);
        if (column + 1 < columns) at[1] = sum.at(i, j + 1);
      }
    for (std::int64_t o = begin; o < end; ++o) {
      const float* const own = query + m.occurrence[o] * m.width + first_column;
      float partial[kMicroRows] = {};
#pragma unroll
      for (int j = 0; j < kMicroColumns; ++j) {
        const int column = ProductTile::column(j);
        if (column >= columns) continue;
        const float of_query = own[column];
#pragma unroll
        for (int i = 0; i < kMicroRows; ++i) partial[i] += fabsf(of_query - sum.at(i, j));
      }
#pragma unroll
      for (int i = 0; i < kMicroRows; ++i) parts[ProductTile::thread_column()][ProductTile::row(i)] = partial[i];
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

// A block lists the rows of the step that a chunk has runs of, in order: their number, and behind it the rows.
__global__ void __launch_bounds__(kListThreads) list_kernel(ProjectedPairs p, std::int32_t* rows) {
  __shared__ std::int32_t counts[2][kListThreads];  // of runs up to a thread's row
  const std::int64_t chunk = blockIdx.x;
  std::int32_t *const list = rows + chunk * (p.chunk_size + 1), before = 0;
  const int thread = static_cast<int>(threadIdx.x);
  for (std::int64_t first = 0; first < p.m.count; first += kListThreads) {
    const std::int64_t u = first + thread;
    const bool has = u < p.m.count && p.has_run(chunk, u);
    int turn = 0;
    counts[turn][thread] = has;
    __syncthreads();
    for (int apart = 1; apart < kListThreads; apart *= 2, turn ^= 1) {
      counts[turn ^ 1][thread] = counts[turn][thread] + (thread >= apart ? counts[turn][thread - apart] : 0);
      __syncthreads();
    }
    if (has) list[before + counts[turn][thread]] = static_cast<std::int32_t>(u);
    before += counts[turn][kListThreads - 1];
    __syncthreads();  // the counts have been read
  }
  if (thread == 0) list[0] = before;
}

struct StripeRun {
  const float *projected, *matrix;
  const std::int32_t* edge;
  int count;
  std::int32_t at_hand[kEdgesAtHand];  // the first ones

  __device__ std::int64_t of(int i) const { return i < kEdgesAtHand ? at_hand[i] : edge[i]; }
};

// The operands of `project_back`: gradients by what a run's matrix made of negatives, by its rows; run after run. The
// first edge's query and slopes come with the negatives, the others' as they are added.
template <bool kFours>
struct GradientsByRuns {
  using Left = ProductTile::Share<kTileRows, true>;
  using Right = ProductTile::Share<kTileColumns, true>;
  const StripeRun* run;  // of the slab that is loaded next
  const float *query, *slope;
  int negatives, width, first_row, rows;
  int first = 0, next = 0, there = 0;  // the last slab's first depth in its run, the next one's, and the last one's
                                       // depths
  const StripeRun* last;  // of the last slab
  DepthsOfRows<kTileRows, kFours> projected;
  DepthsOfRows<kTileColumns, kFours> matrix;
  struct Edge {
    float4 query;
    float slope[Left::kCount];
  } first_edge;

  __device__ GradientsByRuns(const StripeRun* runs, const float* queries, const float* slopes, int all_negatives,
                             int columns_of_matrix, int first_negative, int height)
      : run(runs),
        query(queries),
        slope(slopes),
        negatives(all_negatives),
        width(columns_of_matrix),
        first_row(first_negative),
        rows(all_negatives - first_negative),
        projected(rows, columns_of_matrix),
        matrix(height, columns_of_matrix) {}
  __device__ void load(int) {
    first = next, there = width - first;
    projected.load(run->projected + first, there);
    matrix.load(run->matrix + first, there);
    last = run;
    first_edge = bring(run->of(0));
    next += kDepth;
    if (next >= width) next = 0, ++run;
  }
  __device__ int depths() const { return there; }
  __device__ Edge bring(std::int64_t edge) const {
    Edge found;
    found.query = four_depths<kFours>(query + edge * width + first + 4 * Left::quad(0), there - 4 * Left::quad(0));
#pragma unroll
    for (int k = 0; k < Left::kCount; ++k) {
      const int row = Left::index(k) < rows ? Left::index(k) : rows - 1;
      found.slope[k] = slope[edge * negatives + first_row + row];
    }
    return found;
  }
  __device__ float4 left(int k) {
    if (k == 0) add_edges();
    return sum[k];
  }
  __device__ float4 right(int k) const { return matrix.x[k]; }

 private:
  float4 sum[Left::kCount];

  __device__ void add_edges() {
#pragma unroll
    for (int k = 0; k < Left::kCount; ++k) sum[k] = by_projected(first_edge, k);
    for (int e = 1; e < last->count; e += kEdgesAtOnce) {
      Edge edge[kEdgesAtOnce];
#pragma unroll
      for (int i = 0; i < kEdgesAtOnce; ++i) edge[i] = bring(last->of(e + i < last->count ? e + i : e));
#pragma unroll
      for (int i = 0; i < kEdgesAtOnce; ++i) {
        if (e + i >= last->count) break;
#pragma unroll
        for (int k = 0; k < Left::kCount; ++k) {
          const float4 x = by_projected(edge[i], k);
          sum[k].x += x.x, sum[k].y += x.y, sum[k].z += x.z, sum[k].w += x.w;
        }
      }
    }
  }
  __device__ float4 by_projected(const Edge& edge, int k) const {
    const float4& x = projected.x[k];
    return {ProjectedPairs::by_projected(edge.query.x, x.x, edge.slope[k]),
            ProjectedPairs::by_projected(edge.query.y, x.y, edge.slope[k]),
            ProjectedPairs::by_projected(edge.query.z, x.z, edge.slope[k]),
            ProjectedPairs::by_projected(edge.query.w, x.w, edge.slope[k])};
  }
};

// A block adds up a tile of the gradients by a chunk's negatives, over the runs of one stripe. A run has one matrix, so
// its edges' gradients are added before they are multiplied by it.
template <bool kFours>
__global__ void __launch_bounds__(kThreads, 3)
    project_back_kernel(ProjectedPairs p, const float* query, const float* slope, const float* projected,
                        const std::int32_t* rows_of_runs, float* of_candidates, int row_tiles, int column_tiles) {
  __shared__ alignas(16) ProductTile::Slab slabs[2];
  __shared__ StripeRun runs[kRunsAtOnce];
  const MatrixRows& m = p.m;
  constexpr int kStripes = static_cast<int>(ProjectedPairs::kStripes);
  const int number = static_cast<int>(blockIdx.x), tile = number % (row_tiles * column_tiles);
  const int stripe = number / (row_tiles * column_tiles) % kStripes;
  const int chunk = number / (row_tiles * column_tiles) / kStripes;
  const int height = static_cast<int>(m.height), width = static_cast<int>(m.width);
  const int negatives = static_cast<int>(p.negatives);
  const int first_row = tile / column_tiles * kTileRows, first_column = tile % column_tiles * kTileColumns;
  const int rows = negatives - first_row, columns = height - first_column;
  const std::int32_t* const list = rows_of_runs + chunk * (p.chunk_size + 1);
  const int last = list[0] * (stripe + 1) / kStripes;
  ProductTile::Sums sum;
  for (int first = list[0] * stripe / kStripes; first < last; first += kRunsAtOnce) {
    const int count = last - first < kRunsAtOnce ? last - first : kRunsAtOnce;
    if (threadIdx.x < count) {
      const std::int64_t u = list[1 + first + threadIdx.x], begin = p.begin_of_run(chunk, u);
      const std::int64_t end = p.begin_of_run(chunk + 1, u);
      StripeRun& run = runs[threadIdx.x];
      run.projected = projected + (begin * negatives + first_row) * width;
      run.matrix = m.matrix(u) + first_column * width;
      run.edge = m.occurrence + begin, run.count = static_cast<int>(end - begin);
#pragma unroll
      for (int i = 0; i < kEdgesAtHand; ++i)
        if (begin + i < end) run.at_hand[i] = m.occurrence[begin + i];
    }
    __syncthreads();
    using Operands = GradientsByRuns<kFours>;
    Operands operands(runs, query, slope, negatives, width, first_row, columns);
    ProductTile::fold<typename Operands::Left, typename Operands::Right>(slabs, count * pieces_of(width, kDepth),
                                                                         operands, sum);
  }
  float* const to = of_candidates + ((std::int64_t{chunk} * kStripes + stripe) * negatives + first_row) * height;
#pragma unroll
  for (int i = 0; i < kMicroRows; ++i)
#pragma unroll
    for (int j = 0; j < kMicroColumns; ++j) {
      const int row = ProductTile::row(i), column = ProductTile::column(j);
      if (row < rows && column < columns) to[row * height + first_column + column] = sum.at(i, j);
    }
}

// The operands of `differentiate_matrices`: gradients by what a matrix made of negatives, a column of an edge's matrix
// for each thread, by the negatives. They are added up on the way.
template <bool kFours>
struct GradientsByNegatives {
  using Left = ProductTile::Share<kTileRows, false>;
  using Right = ProductTile::Share<kTileColumns, false>;
  const float* slope;  // of the thread's edge, from its own depths on
  float query;
  int negatives, there = 0;
  DepthsOfColumns<kTileRows> projected;
  DepthsOfColumns<kTileColumns> candidates;
  float4 of_edge[Left::kCount];
  float sum = 0.0f;

  __device__ GradientsByNegatives(float own_query, const float* own_slope, const float* own_projected, int width,
                                  const float* of_chunk, int columns, int height, int all_negatives)
      : slope(own_slope),
        query(own_query),
        negatives(all_negatives),
        projected(own_projected, width),
        candidates(of_chunk + (Right::index(0) < columns ? Right::index(0) : columns - 1), height) {}
  __device__ void load(int slab) {
    const int first = slab * kDepth;
    there = negatives - first;
    projected.load(there);
    candidates.load(there);
#pragma unroll
    for (int k = 0; k < Left::kCount; ++k)
      of_edge[k] = four_depths<kFours>(slope + first + 4 * Left::quad(k), there - 4 * Left::quad(k));
  }
  __device__ int depths() const { return there; }
  __device__ float4 left(int k) {
    const float4 x = projected.four(k), weight = of_edge[k];
    const float4 y = {ProjectedPairs::by_projected(query, x.x, weight.x),
                      ProjectedPairs::by_projected(query, x.y, weight.y),
                      ProjectedPairs::by_projected(query, x.z, weight.z),
                      ProjectedPairs::by_projected(query, x.w, weight.w)};
    sum += (y.x + y.y) + (y.z + y.w);
    return y;
  }
  __device__ float4 right(int k) const { return candidates.four(k); }
};

// A block makes a tile of the gradients by the matrices of a chunk's edges: a row of the tile is a column of an edge's
// matrix. The products, two threads a row, add up to the gradient by the query.
template <bool kFours>
__global__ void __launch_bounds__(kThreads, 3)
    differentiate_kernel(ProjectedPairs p, const float* candidates, const float* query, const float* slope,
                         const float* projected, float* of_matrices, float* of_query, int row_tiles,
                         int column_tiles) {
  __shared__ alignas(16) ProductTile::Slab slabs[2];
  __shared__ float halves[kTileRows];
  const MatrixRows& m = p.m;
  const int number = static_cast<int>(blockIdx.x), tile = number % (row_tiles * column_tiles);
  const int chunk = number / (row_tiles * column_tiles);
  const int height = static_cast<int>(m.height), width = static_cast<int>(m.width);
  const int negatives = static_cast<int>(p.negatives), down = static_cast<int>(p.chunk_size) * width;
  const int first_row = tile / column_tiles * kTileRows, first_column = tile % column_tiles * kTileColumns;
  const int columns = height - first_column;
  using Operands = GradientsByNegatives<kFours>;
  const int wanted = first_row + Operands::Left::index(0), own_row = wanted < down ? wanted : down - 1;
  const std::int32_t edge = chunk * static_cast<std::int32_t>(p.chunk_size) + own_row / width;
  const std::int64_t row = std::int64_t{chunk} * down + own_row;
  Operands operands(query[row], slope + std::int64_t{edge} * negatives,
                    projected + p.begin_of_run(chunk, m.slot[edge]) * negatives * width + own_row % width, width,
                    candidates + std::int64_t{chunk} * negatives * height + first_column, columns, height, negatives);
  ProductTile::Sums sum;
  ProductTile::fold<typename Operands::Left, typename Operands::Right>(slabs, pieces_of(negatives, kDepth), operands,
                                                                       sum);
  float* const to = of_matrices + (std::int64_t{chunk} * p.chunk_size * height + first_column) * width;
#pragma unroll
  for (int i = 0; i < kMicroRows; ++i) {
    const int row = first_row + ProductTile::row(i);
    float* const of_row = to + std::int64_t{row / width} * height * width + row % width;
#pragma unroll
    for (int j = 0; j < kMicroColumns; ++j) {
      const int column = ProductTile::column(j);
      if (row < down && column < columns) of_row[column * width] = sum.at(i, j);
    }
  }
  if (threadIdx.x >= kTileRows) halves[threadIdx.x - kTileRows] = operands.sum;
  __syncthreads();
  if (first_column == 0 && threadIdx.x < kTileRows && wanted < down)
    of_query[row] = -(operands.sum + halves[threadIdx.x]);
}

cudaStream_t stream_of(const Launch& launch) { return reinterpret_cast<cudaStream_t>(launch.stream); }

}  // namespace

void project(const ProjectedPairs& p, const float* candidates, const float* query, float* projected, float* distances,
             const Launch& launch) {
  if (p.m.edges == 0 || p.negatives == 0) return;
  const int tiles = pieces_of(p.negatives, kTileRows);
  const auto blocks = static_cast<unsigned>(p.m.edges * tiles);
  const auto kernel = in_fours(candidates, p.m.height) ? project_kernel<true> : project_kernel<false>;
  const auto stream = stream_of(launch);
  kernel<<<blocks, kThreads, 0, stream>>>(p, candidates, query, projected, distances, tiles);
  cuda_check(cudaGetLastError(), "launching projections for " + std::to_string(p.m.edges) + " edges");
}

void project_back(const ProjectedPairs& p, const float* query, const float* slope, const float* projected,
                  std::int32_t* rows_of_runs, float* of_candidates, const Launch& launch) {
  if (p.m.edges == 0 || p.negatives == 0) return;
  const int rows = pieces_of(p.negatives, kTileRows), columns = pieces_of(p.m.height, kTileColumns);
  const auto blocks = static_cast<unsigned>(p.chunks() * p.kStripes * rows * columns);
  const auto stream = stream_of(launch);
  const bool fours = in_fours(projected, p.m.width) && in_fours(query, p.m.width) && in_fours(p.m.table, p.m.stride);
  const auto kernel = fours ? project_back_kernel<true> : project_back_kernel<false>;
  const auto chunks = static_cast<unsigned>(p.chunks());
  list_kernel<<<chunks, kListThreads, 0, stream>>>(p, rows_of_runs);
  kernel<<<blocks, kThreads, 0, stream>>>(p, query, slope, projected, rows_of_runs, of_candidates, rows, columns);
  cuda_check(cudaGetLastError(), "launching gradients by negatives of " + std::to_string(p.m.edges) + " edges");
}

void differentiate_matrices(const ProjectedPairs& p, const float* candidates, const float* query, const float* slope,
                            const float* projected, float* of_matrices, float* of_query, const Launch& launch) {
  if (p.m.edges == 0) return;
  const int rows = pieces_of(p.chunk_size * p.m.width, kTileRows), columns = pieces_of(p.m.height, kTileColumns);
  const auto blocks = static_cast<unsigned>(p.chunks() * rows * columns);
  const auto stream = stream_of(launch);
  const auto kernel = in_fours(slope, p.negatives) ? differentiate_kernel<true> : differentiate_kernel<false>;
  kernel<<<blocks, kThreads, 0, stream>>>(p, candidates, query, slope, projected, of_matrices, of_query, rows, columns);
  cuda_check(cudaGetLastError(), "launching gradients by matrices of " + std::to_string(p.m.edges) + " edges");
}

}  // namespace frugal::cuda
