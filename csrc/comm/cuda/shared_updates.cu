#include "comm/cuda/shared_updates.h"

#include <string>

#include "base/device/cuda_check.h"
#include "comm/cuda/place_of.cuh"
#include "rows/cuda/device_warp.cuh"
#include "rows/cuda/fetch.cuh"
#include "table/mean_square.h"

namespace frugal::cuda {
namespace {

constexpr int kLanes = 32, kThreads = 128, kWarps = kThreads / kLanes;
constexpr int kVectors = 16;  // of kLanes columns that a warp works on together: most rows are on their way at once

__global__ void __launch_bounds__(kThreads) put_kernel(const __grid_constant__ DeviceExchange x, const SharedPart part,
                                                       const __grid_constant__ SharedRows rows) {
  const std::int64_t u = blockIdx.x * static_cast<std::int64_t>(kThreads) + threadIdx.x;
  if (u >= part.rows) return;
  const auto store = [&](std::int64_t at, std::int32_t value) {
    const float bits = __int_as_float(value);
    x.scores.own.own[at] = bits;
    for (int m = 0; m < x.scores.own.count; ++m) x.scores.own.at[m][at] = bits;
  };
  const bool there = u < *rows.used;
  store(u, there ? static_cast<std::int32_t>(rows.ids[u]) : SharedPart::kNoRow);
  if (!there || rows.leave[u] != RowDestination::kGradient) return;
  store(part.targets() + u, static_cast<std::int32_t>(rows.target[u] / SharedPart::kTargetFloats));
  for (int e = 0; e < part.entries; ++e) store(part.counts(e) + u, rows.offset[e][u + 1] - rows.offset[e][u]);
}

__device__ std::int32_t load_int(const float* part, std::int64_t at) { return __float_as_int(part[at]); }

// The gradients of a shared row, as a warp knows them: lane r those of rank r.
struct Senders {
  unsigned have;     // the ranks that there are, by bits
  const float* from;  // of this lane's rank: its first gradient
  int count[kMaxEntries];

  // Calls body(gradient) for each of an entry, in rank order.
  template <typename Body>
  __device__ void each(int e, std::int64_t stride, const Body& body) const {
    for (unsigned left = have; left != 0; left &= left - 1) {
      const int rank = __ffs(static_cast<int>(left)) - 1;
      const auto bits = reinterpret_cast<std::uintptr_t>(from);
      const auto high = static_cast<unsigned>(bits >> 32), low = static_cast<unsigned>(bits);
      const float* gradient = reinterpret_cast<const float*>(
          static_cast<std::uintptr_t>(__shfl_sync(DeviceWarp::kAll, high, rank)) << 32 |
          __shfl_sync(DeviceWarp::kAll, low, rank));
      if (e > 0) gradient += __shfl_sync(DeviceWarp::kAll, count[0], rank) * stride;
      const int times = __shfl_sync(DeviceWarp::kAll, e > 0 ? count[1] : count[0], rank);
      for (int k = 0; k < times; ++k, gradient += stride) body(gradient);
    }
  }
};

__global__ void __launch_bounds__(kThreads)
    apply_kernel(const __grid_constant__ DeviceExchange x, const SharedPart part,
                 const __grid_constant__ SharedRows rows, const __grid_constant__ SharedMemory memory, int power,
                 float negative_rate) {
  const std::int64_t u = blockIdx.x * static_cast<std::int64_t>(kWarps) + threadIdx.x / kLanes;
  if (u >= part.rows || u >= *rows.used || rows.leave[u] != RowDestination::kGradient) return;
  const int lane = DeviceWarp::lane();
  const std::int64_t id = rows.ids[u], dim = memory.dim;
  int place = -1;
  if (lane < x.ranks) {
    const auto id_at = [&](std::int64_t i) { return load_int(x.scores.here[lane], i); };
    place = lane == x.rank ? static_cast<int>(u) : place_of(static_cast<std::int32_t>(id), part.rows, id_at);
  }
  Senders senders{__ballot_sync(DeviceWarp::kAll, place >= 0), nullptr, {}};
  const int before = __popc(senders.have & ((1u << x.rank) - 1));
  if (SharedPart::turn(id, __popc(senders.have)) != before) return;
  if (place >= 0) {
    const float* const of_rank = x.scores.here[lane];
    senders.from = memory.staging[lane] + load_int(of_rank, part.targets() + place) * SharedPart::kTargetFloats;
    for (int e = 0; e < part.entries; ++e) senders.count[e] = load_int(of_rank, part.counts(e) + place);
  }
  const float* const record = memory.records + u * memory.stride;
  float* const row = memory.host_rows + id * memory.stride;
  float state = record[dim], deviation[kMaxEntries];
#pragma unroll
  for (int e = 0; e < kMaxEntries; ++e) {
    if (e < part.entries)
      senders.each(e, memory.stride, [&](const float* gradient) {
        const float* const one[1] = {gradient};
        float mean[1];
        warp_mean_squares<DeviceWarp, 1>(one, dim, power, mean);
        state += mean[0];
      });
    deviation[e] = __fsqrt_rn(state) + 1e-10f;
  }
  for (std::int64_t first = 0; first < dim; first += kVectors * kLanes) {
    float values[kVectors];
#pragma unroll
    for (int v = 0; v < kVectors; ++v)
      values[v] = DeviceWarp::load(record + first + v * kLanes, active_lanes(dim, first + v * kLanes));
#pragma unroll
    for (int e = 0; e < kMaxEntries; ++e)
      if (e < part.entries)
        senders.each(e, memory.stride, [&](const float* gradient) {
          float step[kVectors];
#pragma unroll
          for (int v = 0; v < kVectors; ++v)
            step[v] = DeviceWarp::load(gradient + first + v * kLanes, active_lanes(dim, first + v * kLanes));
#pragma unroll
          for (int v = 0; v < kVectors; ++v) values[v] += negative_rate * step[v] / deviation[e];
        });
#pragma unroll
    for (int v = 0; v < kVectors; ++v)
      DeviceWarp::store(row + first + v * kLanes, values[v], active_lanes(dim, first + v * kLanes));
  }
  if (lane == 0) row[dim] = state;
}

unsigned blocks_of(std::int64_t count, int of_block) {
  return static_cast<unsigned>((count + of_block - 1) / of_block);
}

}  // namespace

void put_shared(const DeviceExchange& exchange, const SharedPart& part, const SharedRows& rows,
                std::uintptr_t stream_address) {
  const auto stream = reinterpret_cast<cudaStream_t>(stream_address);
  const unsigned blocks = blocks_of(part.rows, kThreads);
  put_kernel<<<blocks, kThreads, 0, stream>>>(exchange, part, rows);
  cuda_check(cudaGetLastError(), "launching the places of " + std::to_string(part.rows) + " rows' gradients");
}

void apply_shared(const DeviceExchange& exchange, const SharedPart& part, const SharedRows& rows,
                  const SharedMemory& memory, float learning_rate, std::uintptr_t stream_address) {
  const auto stream = reinterpret_cast<cudaStream_t>(stream_address);
  Fetch fetch;
  for (int other = 0; other < exchange.ranks; ++other)
    if (!exchange.near && other != exchange.rank)
      fetch.add(exchange.scores.of[other], exchange.scores.here[other], part.floats());
  enqueue(fetch, stream);
  const unsigned blocks = blocks_of(part.rows, kWarps);
  const int power = sum_level_power(memory.dim / kSumPartials);
  const float negative_rate = -learning_rate;
  apply_kernel<<<blocks, kThreads, 0, stream>>>(exchange, part, rows, memory, power, negative_rate);
  cuda_check(cudaGetLastError(), "launching the updates of " + std::to_string(part.rows) + " rows at most");
}

}  // namespace frugal::cuda
