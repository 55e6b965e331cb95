#include <algorithm>
#include <string>

#include "base/device/cuda_check.h"
#include "models/cuda/pair_kernels.h"

namespace frugal::cuda {
namespace {

constexpr int kTile = 32;          // rows of either side, and columns at a time, in shared memory
constexpr int kTileThreads = 8;    // of a column of the block: each makes kTile / kTileThreads distances
constexpr int kGradientThreads = 128;
constexpr int kGradientRows = 8;   // that a block works on together, so that it reads the others once for all
constexpr std::int64_t kMostChunks = 65535;  // of a grid's third dimension; loops cover the rest

// A block makes kTile x kTile distances; every sum is one thread's, in the order of columns.
template <PairKind kKind>
__global__ void __launch_bounds__(kTile* kTileThreads)
    distances_kernel(PairShape s, const float* mine, const float* theirs, float* distances) {
  using Term = PairTerm<kKind>;
  constexpr int kSums = kTile / kTileThreads;
  __shared__ float own[Term::kParts][kTile][kTile + 1], other[Term::kParts][kTile][kTile + 1];
  const std::int64_t terms = s.columns / Term::kParts;
  const std::int64_t first_own = static_cast<std::int64_t>(blockIdx.y) * kTile;
  const std::int64_t first_other = static_cast<std::int64_t>(blockIdx.x) * kTile;
  for (std::int64_t chunk = blockIdx.z; chunk < s.chunks; chunk += gridDim.z) {
    float sum[kSums] = {};
    for (std::int64_t first = 0; first < terms; first += kTile) {
      __syncthreads();  // the last tile has been used
      const std::int64_t column = first + threadIdx.x;
      for (int row = threadIdx.y; row < kTile; row += kTileThreads) {
        const std::int64_t i = first_own + row, j = first_other + row;
#pragma unroll
        for (int part = 0; part < Term::kParts; ++part) {
          // Columns beyond the end differ by 0, which adds 0.
          own[part][row][threadIdx.x] =
              column < terms && i < s.mine ? mine[(chunk * s.mine + i) * s.columns + part * terms + column] : 0.0f;
          other[part][row][threadIdx.x] =
              column < terms && j < s.theirs ? theirs[(chunk * s.theirs + j) * s.columns + part * terms + column]
                                             : 0.0f;
        }
      }
      __syncthreads();
      for (int k = 0; k < kTile; ++k)
#pragma unroll
        for (int r = 0; r < kSums; ++r) {
          float d[Term::kParts];
#pragma unroll
          for (int part = 0; part < Term::kParts; ++part)
            d[part] = own[part][threadIdx.y + r * kTileThreads][k] - other[part][threadIdx.x][k];
          sum[r] += Term::distance(d);
        }
    }
    const std::int64_t j = first_other + threadIdx.x;
#pragma unroll
    for (int r = 0; r < kSums; ++r) {
      const std::int64_t i = first_own + threadIdx.y + r * kTileThreads;
      if (i < s.mine && j < s.theirs) distances[(chunk * s.mine + i) * s.theirs + j] = sum[r];
    }
  }
}

// A thread per column; every sum is one thread's, in the order of the other rows.
template <PairKind kKind>
__global__ void __launch_bounds__(kGradientThreads)
    gradients_kernel(PairShape s, const float* mine, const float* theirs, PairWeights w, float* gradients) {
  using Term = PairTerm<kKind>;
  const std::int64_t terms = s.columns / Term::kParts;
  const std::int64_t k = static_cast<std::int64_t>(blockIdx.x) * kGradientThreads + threadIdx.x;
  if (k >= terms) return;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.y) * kGradientRows;
  for (std::int64_t chunk = blockIdx.z; chunk < s.chunks; chunk += gridDim.z) {
    float own[kGradientRows][Term::kParts] = {}, sum[kGradientRows][Term::kParts] = {};
#pragma unroll
    for (int r = 0; r < kGradientRows; ++r)
#pragma unroll
      for (int part = 0; part < Term::kParts; ++part)
        if (first + r < s.mine) own[r][part] = mine[(chunk * s.mine + first + r) * s.columns + part * terms + k];
    for (std::int64_t j = 0; j < s.theirs; ++j) {
      float other[Term::kParts];
#pragma unroll
      for (int part = 0; part < Term::kParts; ++part)
        other[part] = theirs[(chunk * s.theirs + j) * s.columns + part * terms + k];
#pragma unroll
      for (int r = 0; r < kGradientRows; ++r) {
        if (first + r >= s.mine) break;
        float d[Term::kParts];
#pragma unroll
        for (int part = 0; part < Term::kParts; ++part) d[part] = own[r][part] - other[part];
        Term::add_gradient(d, w.data[chunk * w.chunk + (first + r) * w.mine + j * w.theirs], sum[r]);
      }
    }
#pragma unroll
    for (int r = 0; r < kGradientRows; ++r)
#pragma unroll
      for (int part = 0; part < Term::kParts; ++part)
        if (first + r < s.mine) gradients[(chunk * s.mine + first + r) * s.columns + part * terms + k] = sum[r][part];
  }
}

unsigned pieces(std::int64_t count, std::int64_t size) { return static_cast<unsigned>((count + size - 1) / size); }

unsigned chunks_of(const PairShape& shape) { return static_cast<unsigned>(std::min(shape.chunks, kMostChunks)); }

bool empty(const PairShape& s) { return s.chunks == 0 || s.mine == 0 || s.theirs == 0 || s.columns == 0; }

}  // namespace

void pair_distances(PairKind kind, const PairShape& shape, const float* mine, const float* theirs, float* distances,
                    const Launch& launch) {
  if (empty(shape)) return;
  const dim3 grid(pieces(shape.theirs, kTile), pieces(shape.mine, kTile), chunks_of(shape)), block(kTile, kTileThreads);
  const auto kernel =
      kind == PairKind::kModulus ? distances_kernel<PairKind::kModulus> : distances_kernel<PairKind::kAbsolute>;
  kernel<<<grid, block, 0, reinterpret_cast<cudaStream_t>(launch.stream)>>>(shape, mine, theirs, distances);
  cuda_check(cudaGetLastError(), "launching the distances of " + std::to_string(shape.chunks) + " chunks");
}

void pair_gradients(PairKind kind, const PairShape& shape, const float* mine, const float* theirs,
                    const PairWeights& weights, float* gradients, const Launch& launch) {
  if (empty(shape)) return;
  const std::int64_t terms = kind == PairKind::kModulus ? shape.columns / 2 : shape.columns;
  const dim3 grid(pieces(terms, kGradientThreads), pieces(shape.mine, kGradientRows), chunks_of(shape));
  const auto kernel =
      kind == PairKind::kModulus ? gradients_kernel<PairKind::kModulus> : gradients_kernel<PairKind::kAbsolute>;
  kernel<<<grid, kGradientThreads, 0, reinterpret_cast<cudaStream_t>(launch.stream)>>>(shape, mine, theirs, weights,
                                                                                       gradients);
  cuda_check(cudaGetLastError(), "launching the gradients of " + std::to_string(shape.chunks) + " chunks of pairs");
}

}  // namespace frugal::cuda
