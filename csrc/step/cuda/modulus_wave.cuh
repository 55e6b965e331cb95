// Gradients of moduli, whose pairs are dear: both sides of a pair from one look at it, each side's sum in order.
//
// A warp takes one column of a chunk. A lane keeps kMine negatives and their sums; the queries, with their sums, pass
// through the lanes as a wave: at step t lane l adds up the pairs of query t - l. So a query is paired with the
// negatives in their order, a negative the queries in theirs, and the bits are those of a pass for each side.
#pragma once

#include "rows/cuda/device_warp.cuh"
#include "step/cuda/pair_passes.cuh"

namespace frugal::cuda {

struct Wave {
  static constexpr int kWarp = 32, kMine = 8, kNegatives = kMine * kWarp;  // of a round
  static constexpr int kColumns = 8, kThreads = kColumns * kWarp;          // a warp each
  // Queries come by slabs into a ring, which holds the queries that are in the wave, and a slab on its way.
  static constexpr int kSlab = 8, kRing = kWarp + 2 * kSlab;
  static constexpr int kPitch = kNegatives + 4;  // 4: lanes' words lie in different banks
  static constexpr int kValues = 2 * kColumns;   // of a query: real parts, then imaginary ones
  static constexpr int kResultPitch = kValues + 4;
  static constexpr int kFloats = kRing * (kPitch + 2 * kValues + 1);
  static_assert(kNegatives * kResultPitch <= kRing * kPitch && kThreads == 2 * kSlab * kValues);
};

inline std::int64_t wave_blocks(const Step& s) { return s.chunks * pieces(s.part, Wave::kColumns); }

// Where each number lies in shared memory: of query i in slot i % kRing.
struct WaveRing {
  float *weights, *queries, *sums, *normal_range;  // (kRing, kPitch), (kValues, kRing) twice, (kRing,)
  __device__ explicit WaveRing(float* shared)
      : weights(shared),
        queries(weights + Wave::kRing * Wave::kPitch),
        sums(queries + Wave::kRing * Wave::kValues),
        normal_range(sums + Wave::kRing * Wave::kValues) {}

  // By the whole block: a slab of queries, with their weights of the negatives from `first` on, and, behind those, with
  // their sums so far. column: the block's first one.
  __device__ void start(const Step& s, int chunk, int slab, int first, int column) const {
    const int rows = static_cast<int>(s.batch.chunk_size), place = slab * Wave::kSlab % Wave::kRing;
    const std::int64_t first_edge = static_cast<std::int64_t>(chunk) * rows;
    constexpr int kWords = Wave::kNegatives / 4;
#pragma unroll
    for (int k = 0; k < Wave::kSlab * kWords / Wave::kThreads; ++k) {
      const int i = k * Wave::kThreads + threadIdx.x, row = i / kWords, at = i % kWords * 4;
      const int query = slab * Wave::kSlab + row;
      if (query < rows && first + at < s.weight_stride)
        __pipeline_memcpy_async(weights + (place + row) * Wave::kPitch + at,
                                s.weight + (first_edge + query) * s.weight_stride + first + at, 16);
    }
    const int i = threadIdx.x % (Wave::kThreads / 2), row = i / Wave::kValues, value = i % Wave::kValues;
    const int query = slab * Wave::kSlab + row;
    const bool of_sums = threadIdx.x >= Wave::kThreads / 2;
    if (query < rows && (first > 0 || !of_sums)) {
      const std::int64_t from = (first_edge + query) * s.stride + value / Wave::kColumns * s.part_stride + column +
                                value % Wave::kColumns;
      __pipeline_memcpy_async((of_sums ? sums : queries) + value * Wave::kRing + place + row,
                              (of_sums ? s.query_gradient : s.query) + from, sizeof(float));
    }
    if (threadIdx.x < Wave::kSlab && slab * Wave::kSlab + threadIdx.x < rows)
      __pipeline_memcpy_async(normal_range + place + threadIdx.x,
                              &s.query_states[first_edge + slab * Wave::kSlab + threadIdx.x].normal_range,
                                  sizeof(float));
    __pipeline_commit();
  }
};

struct Complex {
  float re, im;
};

// A lane's negatives and their sums.
struct WaveLane {
  Complex own[Wave::kMine], sum[Wave::kMine] = {};

  // Adds a query's pairs to the lane's sums and to the query's.
  __device__ void pair(Complex query, const float* weights, bool normal_weights, Complex& query_sum) {
    Complex x[Wave::kMine];
    float weight[Wave::kMine], ratio[Wave::kMine];
    unsigned excess = 0;
#pragma unroll
    for (int k = 0; k < Wave::kMine; k += 4) {
      const float4 word = *reinterpret_cast<const float4*>(weights + k);
      weight[k] = word.x, weight[k + 1] = word.y, weight[k + 2] = word.z, weight[k + 3] = word.w;
    }
#pragma unroll
    for (int k = 0; k < Wave::kMine; ++k) {
      x[k] = {own[k].re - query.re, own[k].im - query.im};
      const float square = square_of(x[k].re, x[k].im);
      excess = larger(excess, excess_of(square));
      ratio[k] = normal_ratio(weight[k], normal_root(square));
    }
    // After the fact, so that nothing waits for the branch.
    if (!(normal_weights & are_in_normal_range(excess)))
#pragma unroll
      for (int k = 0; k < Wave::kMine; ++k) ratio[k] = any_ratio(weight[k], square_of(x[k].re, x[k].im));
#pragma unroll
    for (int k = 0; k < Wave::kMine; ++k) {
      sum[k].re = __fmaf_rn(ratio[k], x[k].re, sum[k].re);
      sum[k].im = __fmaf_rn(ratio[k], x[k].im, sum[k].im);
      query_sum.re = __fmaf_rn(ratio[k], -x[k].re, query_sum.re);
      query_sum.im = __fmaf_rn(ratio[k], -x[k].im, query_sum.im);
    }
  }
};

__global__ void __launch_bounds__(Wave::kThreads) wave_kernel(Step s) {
  extern __shared__ __align__(16) float shared[];
  const WaveRing ring(shared);
  const int lane = threadIdx.x % Wave::kWarp, warp = threadIdx.x / Wave::kWarp;
  const int across = static_cast<int>((s.part + Wave::kColumns - 1) / Wave::kColumns);
  const int chunk = blockIdx.x / across, first_column = blockIdx.x % across * Wave::kColumns;
  const int column = first_column + warp;
  const int rows = static_cast<int>(s.batch.chunk_size), columns = static_cast<int>(s.columns);
  const Operand negatives = s.negatives(chunk);
  float* const query_gradient = s.query_gradient + static_cast<std::int64_t>(chunk) * rows * s.stride + column;
  for (int first = 0; first < columns; first += Wave::kNegatives) {
    const int count = columns - first < Wave::kNegatives ? columns - first : Wave::kNegatives;
    const int last = (count - 1) / Wave::kMine;  // lane with negatives
    const int slabs = (rows + last + Wave::kSlab - 1) / Wave::kSlab;
    ring.start(s, chunk, 0, first, first_column);
    WaveLane mine;
#pragma unroll
    for (int k = 0; k < Wave::kMine; ++k) {
      const int row = lane * Wave::kMine + k;
      const float* own = negatives.data + static_cast<std::int64_t>(first + row) * negatives.stride + column;
      // Beyond the last one, of weight 0: far off on the side from which -0 is added, which changes no sum.
      mine.own[k] = row < count && column < s.part ? Complex{own[0], own[s.part_stride]} : Complex{0x1p30f, 0x1p30f};
    }
    const int before = (lane + Wave::kWarp - 1) % Wave::kWarp;
    const unsigned live = lane <= last ? rows : 0;
    Complex passing = {};
    int query = -lane, slot = lane == 0 ? 0 : Wave::kRing - lane;
    float* out = query_gradient - lane * s.stride;
    for (int slab = 0; slab < slabs; ++slab) {
      __pipeline_wait_prior(0);
      __syncthreads();  // everybody's part of this slab has come, and everybody is done with the place of the next
      ring.start(s, chunk, slab + 1, first, first_column);
      if (column >= s.part) continue;
#pragma unroll 2
      for (int step = 0; step < Wave::kSlab; ++step) {
        passing.re = __shfl_sync(DeviceWarp::kAll, passing.re, before);
        passing.im = __shfl_sync(DeviceWarp::kAll, passing.im, before);
        if (static_cast<unsigned>(query) < live) {
          const int at = warp * Wave::kRing + slot, im = Wave::kColumns * Wave::kRing;
          if (lane == 0) passing = first == 0 ? Complex{} : Complex{ring.sums[at], ring.sums[im + at]};
          mine.pair({ring.queries[at], ring.queries[im + at]},
                    ring.weights + slot * Wave::kPitch + lane * Wave::kMine, ring.normal_range[slot] != 0.0f, passing);
          if (lane == last) out[0] = passing.re, out[s.part_stride] = passing.im;
        }
        ++query;
        out += s.stride;
        slot = slot + 1 == Wave::kRing ? 0 : slot + 1;
      }
    }
    __pipeline_wait_prior(0);
    __syncthreads();  // the ring is free
#pragma unroll
    for (int k = 0; k < Wave::kMine; ++k) {
      float* const to = shared + (k * Wave::kWarp + lane) * Wave::kResultPitch + warp;
      to[0] = mine.sum[k].re, to[Wave::kColumns] = mine.sum[k].im;
    }
    __syncthreads();
    const NegativeGradients to(s, chunk);
    for (int i = threadIdx.x; i < count * Wave::kValues / 4; i += Wave::kThreads) {
      const int row = i / (Wave::kValues / 4), value = i % (Wave::kValues / 4) * 4;
      const int part = value / Wave::kColumns, at = first_column + value % Wave::kColumns;
      if (at >= s.part) continue;
      const float* from = shared + (row % Wave::kMine * Wave::kWarp + row / Wave::kMine) * Wave::kResultPitch + value;
      const float* own =
          negatives.data + static_cast<std::int64_t>(first + row) * negatives.stride + part * s.part_stride + at;
      to.write(first + row, at, *reinterpret_cast<const float4*>(from), *reinterpret_cast<const float4*>(own), part);
    }
    __syncthreads();  // before the ring is filled again
  }
}

}  // namespace frugal::cuda
