#include <string>
#include <type_traits>

#include "base/device/cuda_check.h"
#include "base/device/warp_sums.cuh"
#include "models/cuda/matrix_kernels.h"

namespace frugal::cuda {
namespace {

constexpr int kWarp = 32;
constexpr unsigned kAll = 0xffffffffu;
constexpr int kPiece = 8;  // edges, in the order of rows, whose factors a block fetches together
constexpr int kDenseAtOnce = 4;  // edges, of which a thread asks for dense gradients before it adds the first one's
constexpr int kMostWarps = kMostStrips / kWarp;
constexpr int kStateWarps = 4, kStateThreads = kStateWarps * kWarp;

struct Entries {
  MatrixGradients entry[kMaxEntries];
  int count, terms;  // terms: most of an entry
  bool dense;        // whether an entry has such gradients
};

// DGL-KE's default norm gets a kernel of its own, so that no power function stands in the way of the others' code.
template <bool kCubic>
__device__ inline MatrixPenalty known(MatrixPenalty penalty) {
  if (kCubic) penalty.norm = 3.0f;
  return penalty;
}

static_assert(kPiece * 4 == kWarp);

// Left factors of up to kPiece edges, by their tile's rows; 0 beyond the matrix.
template <int kTerms>
struct LeftFactors {
  float of[kPiece][kTerms][kStrip];

  // By a block: what is asked for is there behind its next barrier. first: of the occurrences.
  __device__ void fetch(const MatrixRows& m, const MatrixGradients& g, const MatrixTile& tile, std::int64_t first,
                        int count) {
    for (int i = threadIdx.x; i < kPiece * kTerms * kStrip; i += blockDim.x) {
      const int e = i / (kTerms * kStrip), k = i / kStrip % kTerms, r = i % kStrip;
      float x = 0.0f;
      if (e < count && k < g.terms && r < tile.length)
        x = g.left[(std::int64_t{m.occurrence[first + e]} * g.terms + k) * m.height + tile.row + r];
      of[e][k][r] = x;
    }
  }
};

// A thread's right factors of as many edges; 0 beyond the last one.
template <int kTerms>
struct RightFactors {
  std::int32_t edge[kPiece];
  float of[kPiece][kTerms];

  __device__ void fetch(const MatrixRows& m, const MatrixGradients& g, int column, std::int64_t first, int count) {
#pragma unroll
    for (int e = 0; e < kPiece; ++e) edge[e] = m.occurrence[first + (e < count ? e : 0)];
#pragma unroll
    for (int e = 0; e < kPiece; ++e) {
      const float* const from = g.right + std::int64_t{edge[e]} * g.terms * m.width;
#pragma unroll
      for (int k = 0; k < kTerms; ++k) of[e][k] = e < count && k < g.terms ? from[k * m.width + column] : 0.0f;
    }
  }
};

// Dense gradients by a thread's strip of kDenseAtOnce edges; 0 beyond the last one. Without kDense there are none.
template <bool kDense>
struct DenseStrips {
  float of[kDense ? kDenseAtOnce : 1][kStrip];

  __device__ void fetch(const MatrixRows& m, const float* dense, const MatrixTile& tile, int column,
                        const std::int32_t* edge, int count) {
    if (!kDense) return;
    if (tile.length == kStrip && count >= kDenseAtOnce)
      fetch_some<true>(m, dense, tile, column, edge, count);
    else
      fetch_some<false>(m, dense, tile, column, edge, count);
  }
  __device__ void add(int e, float times, StripGradient& sum) const {
    if (kDense) sum.add_dense(of[e], 1, kStrip, times);
  }

 private:
  // kAll: whole strips of all edges.
  template <bool kAll>
  __device__ void fetch_some(const MatrixRows& m, const float* dense, const MatrixTile& tile, int column,
                             const std::int32_t* edge, int count) {
    const auto width = static_cast<std::int32_t>(m.width);
#pragma unroll
    for (int e = 0; e < kDenseAtOnce; ++e) {
      const float* from = dense + edge[e] * m.elements() + tile.row * width + column;
#pragma unroll
      for (int r = 0; r < kStrip; ++r, from += width)
        of[e][r] = kAll || (e < count && r < tile.length) ? *from : 0.0f;
    }
  }
};

// Calls body(e, add) for number e of a piece's edges, e < count, where add(times, sum) adds `times` times the gradient
// by a thread's strip.
template <bool kDense, int kTerms, typename Body>
__device__ inline void for_edges(const MatrixRows& m, const MatrixGradients& g, const MatrixTile& tile, int column,
                                 const LeftFactors<kTerms>& left, const RightFactors<kTerms>& right, int count,
                                 const Body& body) {
#pragma unroll
  for (int first = 0; first < kPiece; first += kDenseAtOnce) {
    if (first >= count) return;
    DenseStrips<kDense> dense;
    dense.fetch(m, g.dense, tile, column, right.edge + first, count - first);
#pragma unroll
    for (int i = 0; i < kDenseAtOnce; ++i) {
      const int e = first + i;
      if (e >= count) return;
      body(e, [&](float times, StripGradient& sum) {
#pragma unroll
        for (int k = 0; k < kTerms; ++k)
          if (k < g.terms) sum.add_term(left.of[e][k], times * right.of[e][k]);
        dense.add(i, times, sum);
      });
    }
  }
}

// How many blocks of such a kernel a multiprocessor is to hold: dense gradients take registers.
template <bool kDense>
constexpr int kBlocksAtOnce = kDense ? 2 : 3;

// A block takes the squares over one tile of the gradients of a piece of the edges in one entry: a relation with many
// edges is several blocks' work.
template <int kTerms, bool kCubic, bool kDense>
__global__ void __launch_bounds__(kMostStrips, kBlocksAtOnce<kDense>)
    squares_kernel(MatrixRows m, const __grid_constant__ Entries entries, MatrixPenalty any_penalty, float* squares,
                   float* amounts, unsigned tiles, unsigned pieces) {
  __shared__ alignas(16) LeftFactors<kTerms> left;
  __shared__ const float* matrix[kPiece];  // of each edge
  __shared__ float parts[kMostWarps][kPiece + 1];  // squares of the edges, and amounts of all of them
  const MatrixPenalty penalty = known<kCubic>(any_penalty);
  const unsigned number = blockIdx.x % tiles, of_entry = blockIdx.x / tiles / pieces;
  const std::int64_t first = blockIdx.x / tiles % pieces * kPiece;
  const int count = static_cast<int>(m.edges - first < kPiece ? m.edges - first : kPiece);
  const MatrixGradients& g = entries.entry[of_entry];
  const MatrixTile tile(m, number);
  const bool mine = tile.column + threadIdx.x < m.width, sums_amounts = amounts != nullptr && of_entry == 0;
  const int column = static_cast<int>(mine ? tile.column + threadIdx.x : m.width - 1);
  if (threadIdx.x < count) matrix[threadIdx.x] = m.matrix(m.slot[m.occurrence[first + threadIdx.x]]);
  left.fetch(m, g, tile, first, count);
  RightFactors<kTerms> right;
  right.fetch(m, g, column, first, count);
  __syncthreads();

  float square[kPiece] = {}, amount = 0.0f, of_row = 0.0f;
  StripGradient start;
  const auto take = [&](int e, const auto& add) {
    if ((penalty.factor != 0.0f || sums_amounts) && (e == 0 || matrix[e] != matrix[e - 1])) {
      MatrixStrip strip;
      strip.load(matrix[e] + tile.row * m.width + column, static_cast<std::int32_t>(m.width), tile.length);
      start = strip.gradient(penalty);
      if (sums_amounts) of_row = strip.amount(penalty);
    }
    StripGradient gradient = start;
    add(1.0f, gradient);
    square[e] = mine ? gradient.square() : 0.0f;
    amount += mine ? of_row : 0.0f;
  };
  if (kDense && g.dense != nullptr)
    for_edges<kDense>(m, g, tile, column, left, right, count, take);
  else
    for_edges<false>(m, g, tile, column, left, right, count, take);
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const float sum = warp_sums(square);
  if (sums_amounts) amount = warp_sum(amount);
  if (lane % 4 == 0) parts[warp][lane / 4] = sum;
  if (lane == 0) parts[warp][kPiece] = amount;
  __syncthreads();
  if (threadIdx.x > kPiece) return;
  float total = 0.0f;
  for (unsigned w = 0; w < blockDim.x / kWarp; ++w) total += parts[w][threadIdx.x];
  if (threadIdx.x < count) squares[(of_entry * tiles + number) * m.edges + first + threadIdx.x] = total;
  if (!sums_amounts) return;
  if (threadIdx.x < count && threadIdx.x > 0) amounts[number * m.edges + first + threadIdx.x] = 0.0f;
  if (threadIdx.x == kPiece) amounts[number * m.edges + first] = total;
}

// A warp adds up the state of a row; a lane looks an occurrence's squares up.
__global__ void __launch_bounds__(kStateThreads)
    states_kernel(MatrixRows m, int entries, const float* squares, float* deviations, int tiles) {
  const std::int64_t u = static_cast<std::int64_t>(blockIdx.x) * kStateWarps + threadIdx.x / kWarp;
  const int lane = threadIdx.x % kWarp;
  if (u >= m.count || m.offset[u] == m.offset[u + 1]) return;
  const std::int64_t begin = m.offset[u], end = m.offset[u + 1];
  float* const record = m.matrix(u);
  float state = record[m.elements()];
  for (int e = 0; e < entries; ++e) {
    for (std::int64_t first = begin; first < end; first += kWarp) {
      const int count = static_cast<int>(end - first < kWarp ? end - first : kWarp);
      float sum = 0.0f;
#pragma unroll 8
      for (int t = 0; t < tiles && lane < count; ++t) sum += squares[(e * tiles + t) * m.edges + first + lane];
      const float mean = sum / static_cast<float>(m.elements());
      for (int i = 0; i < count; ++i) state += __shfl_sync(kAll, mean, i);
    }
    if (lane == 0) deviations[e * m.count + u] = __fsqrt_rn(state) + 1e-10f;
  }
  if (lane == 0) record[m.elements()] = state;
}

// A block moves one tile of a row by all edges of the row.
template <int kTerms, bool kCubic, bool kDense>
__global__ void __launch_bounds__(kMostStrips, kBlocksAtOnce<kDense>)
    move_kernel(MatrixRows m, const __grid_constant__ Entries entries, MatrixPenalty any_penalty, float learning_rate,
                const float* deviations, unsigned tiles) {
  __shared__ alignas(16) LeftFactors<kTerms> left;
  const MatrixPenalty penalty = known<kCubic>(any_penalty);
  const unsigned u = blockIdx.x / tiles;
  const std::int64_t begin = m.offset[u], end = m.offset[u + 1];
  if (begin == end) return;
  const MatrixTile tile(m, blockIdx.x % tiles);
  const bool mine = tile.column + threadIdx.x < m.width;
  const int column = static_cast<int>(mine ? tile.column + threadIdx.x : m.width - 1);
  const auto width = static_cast<std::int32_t>(m.width);
  float* const at = m.matrix(u) + tile.row * m.width + column;
  MatrixStrip strip;
  strip.load(at, width, tile.length);
  StripGradient step;
  float times_of_all = 0.0f;
#pragma unroll 1
  for (int e = 0; e < entries.count; ++e) {
    const MatrixGradients& g = entries.entry[e];
    const float times = -learning_rate / deviations[e * m.count + u];
    times_of_all += times * static_cast<float>(end - begin);
#pragma unroll 1
    for (std::int64_t first = begin; first < end; first += kPiece) {
      const int count = static_cast<int>(end - first < kPiece ? end - first : kPiece);
      RightFactors<kTerms> right;
      right.fetch(m, g, column, first, count);
      __syncthreads();  // the last ones have been used
      left.fetch(m, g, tile, first, count);
      __syncthreads();
      const auto take = [&](int, const auto& add) { add(times, step); };
      if (kDense && g.dense != nullptr)
        for_edges<kDense>(m, g, tile, column, left, right, count, take);
      else
        for_edges<false>(m, g, tile, column, left, right, count, take);
    }
  }
  strip.move(step, penalty, times_of_all);
  if (mine) strip.store(at, width, tile.length);
}

cudaStream_t stream_of(const Launch& launch) { return reinterpret_cast<cudaStream_t>(launch.stream); }

// Calls body(std::integral_constant<int, terms>, std::bool_constant<cubic>, std::bool_constant<dense>).
template <typename Body>
void with_known_entries(const Entries& all, const MatrixPenalty& penalty, const Body& body) {
  const auto with_terms = [&](auto terms) {
    const auto with_penalty = [&](auto cubic) {
      all.dense ? body(terms, cubic, std::true_type{}) : body(terms, cubic, std::false_type{});
    };
    penalty.norm == 3.0f ? with_penalty(std::true_type{}) : with_penalty(std::false_type{});
  };
  all.terms <= 1 ? with_terms(std::integral_constant<int, 1>{}) : with_terms(std::integral_constant<int, 2>{});
}

unsigned pieces_of(std::int64_t count, std::int64_t size) { return static_cast<unsigned>((count + size - 1) / size); }

Entries gather_entries(const MatrixGradients* entries, int count) {
  Entries all{};
  all.count = count;
  for (int e = 0; e < count; ++e) {
    all.entry[e] = entries[e];
    all.terms = entries[e].terms > all.terms ? entries[e].terms : all.terms;
    all.dense |= entries[e].dense != nullptr;
  }
  return all;
}

}  // namespace

void matrix_squares(const MatrixRows& m, const MatrixGradients* entries, int count, const MatrixPenalty& penalty,
                    float* squares, float* amounts, const Launch& launch) {
  if (m.edges == 0 || count == 0) return;
  const Entries all = gather_entries(entries, count);
  const auto tiles = static_cast<unsigned>(matrix_tiles(m.height, m.width));
  const unsigned pieces = pieces_of(m.edges, kPiece), blocks = static_cast<unsigned>(count) * pieces * tiles;
  const auto threads = static_cast<unsigned>(strips_of_tile(m.width));
  with_known_entries(all, penalty, [&](auto terms, auto cubic, auto dense) {
    const auto kernel = squares_kernel<terms(), cubic(), dense()>;
    kernel<<<blocks, threads, 0, stream_of(launch)>>>(m, all, penalty, squares, amounts, tiles, pieces);
  });
  cuda_check(cudaGetLastError(), "launching the squares of " + std::to_string(m.edges) + " edges' matrices");
}

void update_matrices(const MatrixRows& m, const MatrixGradients* entries, int count, const float* squares,
                     const MatrixPenalty& penalty, float learning_rate, float* deviations, const Launch& launch) {
  if (m.count == 0) return;
  const Entries all = gather_entries(entries, count);
  const auto tiles = static_cast<unsigned>(matrix_tiles(m.height, m.width));
  const unsigned few = pieces_of(m.count, kStateWarps), blocks = static_cast<unsigned>(m.count) * tiles;
  const auto threads = static_cast<unsigned>(strips_of_tile(m.width));
  states_kernel<<<few, kStateThreads, 0, stream_of(launch)>>>(m, count, squares, deviations, static_cast<int>(tiles));
  with_known_entries(all, penalty, [&](auto terms, auto cubic, auto dense) {
    const auto kernel = move_kernel<terms(), cubic(), dense()>;
    kernel<<<blocks, threads, 0, stream_of(launch)>>>(m, all, penalty, learning_rate, deviations, tiles);
  });
  cuda_check(cudaGetLastError(), "launching the update of " + std::to_string(m.count) + " matrices");
}

}  // namespace frugal::cuda
