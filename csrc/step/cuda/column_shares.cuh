// Where ranks that have columns write and read within a step: raw values go to the owner of a positive, which makes
// weights of the sums, and these go to all.
#pragma once

#include "rows/cuda/fetch.cuh"
#include "step/cuda/device_step.cuh"
#include "step/cuda/shared_copy.cuh"

namespace frugal::cuda {

// The raw values of pairs and queries, by a block of kThreads: the ones that this device has alone.
template <int kThreads>
struct OwnValues {
  static constexpr bool kOfRanks = false;
  const Step& s;
  // n values from `from` on; there once the copies are.
  __device__ void load(const float* from, std::int64_t n, float* to) const { start_copy<kThreads>(to, from, n); }
  __device__ float value(const float* from) const { return *from; }
};

__device__ inline void add_to(float& sum, float x) { sum += x; }
__device__ inline void add_to(float4& sum, float4 x) { sum.x += x.x, sum.y += x.y, sum.z += x.z, sum.w += x.w; }

// The sums of what all ranks have written of this rank's share, after the collective. n is a multiple of kLanes.
template <int kThreads>
struct JoinedValues {
  static constexpr bool kOfRanks = true;
  const Step& s;

  __device__ void load(const float* from, std::int64_t n, float* to) const {
    for (std::int64_t i = 4 * threadIdx.x; i < n; i += 4 * kThreads)
      *reinterpret_cast<float4*>(to + i) = sum(reinterpret_cast<const float4*>(from + i));
  }
  __device__ float value(const float* from) const { return sum(from); }

 private:
  // In the order of ranks, once all parts are under way.
  template <typename Word>
  __device__ Word sum(const Word* from) const {
    const std::int64_t place = reinterpret_cast<const float*>(from) - s.shares.own;
    Word part[kMostRanks];
#pragma unroll
    for (int rank = 0; rank < kMostRanks; ++rank)
      if (rank < s.shares.ranks) part[rank] = *reinterpret_cast<const Word*>(s.shares.part[rank] + place);
#pragma unroll
    for (int rank = 1; rank < kMostRanks; ++rank)
      if (rank < s.shares.ranks) add_to(part[0], part[rank]);
    return part[0];
  }
};

static_assert(Fetch::kMost >= 2 * (kMostRanks - 1));  // pieces of raw values

// Of raw values: this rank's share of all other parts, and what concerns several positives or is short.
inline Fetch raw_values_of_others(const Step& s, const DeviceExchange& x) {
  Fetch fetch;
  const Share own = s.own_share();
  const std::int64_t first = own.first * s.weight_stride, rows = s.batch.positives * s.weight_stride;
  for (int other = 0; other < x.ranks; ++other) {
    if (other == x.rank) continue;
    fetch.add(x.far_part[other] + first, x.part[other] + first, own.rows() * s.weight_stride);
    fetch.add(x.far_part[other] + rows, x.part[other] + rows, exchanged_floats(s) - rows);
  }
  return fetch;
}

// Of weights: all but this rank's share.
inline Fetch weights_of_others(const Step& s, const DeviceExchange& x) {
  Fetch fetch;
  const Share own = s.own_share();
  const std::int64_t rows = s.batch.positives * s.weight_stride, states = kQueryStateFloats * s.batch.positives;
  const auto add = [&](std::int64_t first, std::int64_t end) {
    fetch.add(x.weights.at[0] + first, x.weights.own + first, end - first);
  };
  add(0, own.first * s.weight_stride);
  add(own.end * s.weight_stride, rows + own.first * kQueryStateFloats);
  add(rows + own.end * kQueryStateFloats, rows + states);
  return fetch;
}

}  // namespace frugal::cuda
