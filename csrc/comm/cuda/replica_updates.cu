#include "comm/cuda/replica_updates.h"

#include <algorithm>
#include <string>

#include "base/device/cuda_check.h"
#include "base/device/last_block.cuh"
#include "comm/cuda/barrier.cuh"
#include "comm/cuda/place_of.cuh"

namespace frugal::cuda {
namespace {

constexpr unsigned kAll = 0xffffffffu;
constexpr int kLanes = 32, kThreads = 256, kWarps = kThreads / kLanes;
constexpr std::int64_t kSendBlocks = 64;   // that fill a bus; with more, write-backs at the same time wait longer
constexpr std::int64_t kFetchBlocks = 64;   // that have room on a device next to others: they wait for other ranks
constexpr std::int64_t kApplyBlocks = 128;  // the same
constexpr int kVectors = 4;                 // words a lane copies together
constexpr int kColumns = 16;                // of kLanes columns that a warp updates together
constexpr int kFetched = 16;                // rows that a block fetches together
static_assert(kFetched <= kLanes && 1 + kMaxEntries <= kWarps);

// Regions take turns as in HostExchange::next_part.
__device__ const RankParts& parts_of(const DeviceExchange& x, std::uint64_t number) {
  return number % 2 ? x.scores : x.squares;
}

__device__ std::int64_t warp_number() {
  return blockIdx.x * static_cast<std::int64_t>(kWarps) + threadIdx.x / kLanes;
}

// Writes to a rank's own part and to where the others read it.
struct OwnPart {
  const Mirrors& part;

  __device__ void store(std::int64_t at, float value) const {
    part.own[at] = value;
    for (int m = 0; m < part.count; ++m) part.at[m][at] = value;
  }
};

// By a warp: kLanes columns of the sum of row u's gradients in an entry; with the first of them the mean squares, too.
__device__ void sum_row(const ReplicaPart& part, const EntryGradients& entry, int e, std::int64_t u,
                        std::int64_t first_column, const OwnPart& to) {
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const std::int64_t column = first_column + lane, begin = entry.offset[u];
  const int count = static_cast<int>(entry.offset[u + 1] - begin);
  const bool inside = column < part.dim;
  float sum = 0.0f, squares = 0.0f;
  for (int first = 0; first < count; first += kLanes) {
    const bool has_one = first + lane < count;
    const int place = has_one ? static_cast<int>(entry.place(begin + first + lane)) : 0;
    const float square = has_one && first_column == 0 ? entry.squares[place] : 0.0f;
    float x[kLanes];
#pragma unroll
    for (int k = 0; k < kLanes; ++k) {
      const std::int64_t of = __shfl_sync(kAll, place, k);
      x[k] = first + k < count && inside ? entry.values[of * entry.stride + column] : 0.0f;
    }
#pragma unroll
    for (int k = 0; k < kLanes; ++k) {
      const float next = __shfl_sync(kAll, square, k);
      if (first + k < count) {
        sum += x[k];
        squares += next;
      }
    }
  }
  if (inside) to.store(part.sum(e, u) + column, sum);
  if (first_column == 0 && lane == 0) to.store(part.squares(e) + u, squares);
}

// By a warp: `floats` of them, up to the next multiple of four. Both places are multiples of 16 bytes.
__device__ void copy_row(const float* from, std::int64_t floats, float* to) {
  const std::int64_t words = (floats + 3) / 4;
  const auto source = reinterpret_cast<const float4*>(from);
  for (std::int64_t first = static_cast<int>(threadIdx.x) % kLanes; first < words; first += kVectors * kLanes) {
    float4 x[kVectors];
#pragma unroll
    for (int v = 0; v < kVectors; ++v)
      if (first + v * kLanes < words) x[v] = __ldcv(source + first + v * kLanes);
#pragma unroll
    for (int v = 0; v < kVectors; ++v)
      if (first + v * kLanes < words) reinterpret_cast<float4*>(to)[first + v * kLanes] = x[v];
  }
}

__global__ void __launch_bounds__(kThreads)
    send_kernel(const __grid_constant__ DeviceExchange x, const ReplicaPart part,
                const __grid_constant__ ReplicaRows rows) {
  const std::uint64_t number = next_number(x);
  const OwnPart to{parts_of(x, number).own};
  const std::int64_t used = *rows.used < part.rows ? *rows.used : part.rows;
  for (std::int64_t u = blockIdx.x * static_cast<std::int64_t>(kThreads) + threadIdx.x; u < part.rows;
       u += static_cast<std::int64_t>(gridDim.x) * kThreads)
    to.store(u, __int_as_float(u < used ? static_cast<std::int32_t>(rows.ids[u]) : ReplicaPart::kNoRow));
  const std::int64_t pieces = (part.dim + kLanes - 1) / kLanes, of_entry = used * pieces;
  for (std::int64_t unit = warp_number(); unit < part.entries * of_entry; unit += gridDim.x * kWarps) {
    const int e = unit >= of_entry;
    const std::int64_t within = unit - e * of_entry;
    sum_row(part, e ? rows.entry[1] : rows.entry[0], e, within / pieces, within % pieces * kLanes, to);
  }
  if (is_last_block(x.blocks_sent)) tell(x, number);
}

FRUGAL_HOST_DEVICE std::int64_t fetched_pieces(const ReplicaPart& part) {
  return (part.rows + kFetched - 1) / kFetched;
}

// Where parts lie in host memory: the parts that the others have published come into this device's memory, kFetched
// rows by a block, in whole lines. To look ids up there, or to read a number here and there, would take a bus's latency
// each time, and reads of one line follow each other.
__global__ void __launch_bounds__(kThreads)
    fetch_kernel(const __grid_constant__ DeviceExchange x, const ReplicaPart part) {
  __shared__ float ids[kFetched];
  const RankParts& parts = parts_of(x, next_number(x));
  const std::int64_t others = x.ranks - 1, of_rank = fetched_pieces(part);
  const std::int64_t units = barrier(x, false) ? others * of_rank : 0;
  const int lane = static_cast<int>(threadIdx.x) % kLanes, warp = static_cast<int>(threadIdx.x) / kLanes;
  for (std::int64_t unit = blockIdx.x; unit < units; unit += gridDim.x) {
    const auto other = static_cast<int>((x.rank + 1 + unit % others) % x.ranks);
    const std::int64_t first = unit / others * kFetched, u = first + lane;
    const float* const from = parts.of[other];
    float* const to = parts.here[other];
    const bool inside = lane < kFetched && u < part.rows;
    if (warp == 0 && lane < kFetched) {
      ids[lane] = inside ? __ldcv(from + u) : __int_as_float(ReplicaPart::kNoRow);
      if (inside) to[u] = ids[lane];
    } else if (warp <= part.entries && inside) {
      to[part.squares(warp - 1) + u] = __ldcv(from + part.squares(warp - 1) + u);
    }
    __syncthreads();
    for (int r = warp; r < kFetched && __float_as_int(ids[r]) != ReplicaPart::kNoRow; r += kWarps)
      for (int e = 0; e < part.entries; ++e)
        copy_row(from + part.sum(e, first + r), part.dim, to + part.sum(e, first + r));
    __syncthreads();
  }
}

// Parts are read past the first cache: they have been written while this kernel ran.
__device__ int load_id(const float* part, std::int64_t u) { return __float_as_int(__ldcv(part + u)); }

// By a warp: applies the sums of the ranks that `have` a row to its record, whose place in the part of rank r lane r
// knows.
__device__ void update_row(const RankParts& parts, const ReplicaPart& part, unsigned have, int place, float* record,
                           float negative_rate) {
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  float state = record[part.dim];
  for (int e = 0; e < part.entries; ++e) {
    for (unsigned left = have; left != 0; left &= left - 1) {
      const int rank = __ffs(static_cast<int>(left)) - 1;
      state += __ldcv(parts.here[rank] + part.squares(e) + __shfl_sync(kAll, place, rank));
    }
    const float deviation = __fsqrt_rn(state) + 1e-10f;
    for (std::int64_t first = lane; first < part.dim + lane; first += kColumns * kLanes) {
      float value[kColumns];
#pragma unroll
      for (int v = 0; v < kColumns; ++v)
        value[v] = first + v * kLanes < part.dim ? record[first + v * kLanes] : 0.0f;
      for (unsigned left = have; left != 0; left &= left - 1) {
        const int rank = __ffs(static_cast<int>(left)) - 1;
        const float* const sum = parts.here[rank] + part.sum(e, __shfl_sync(kAll, place, rank)) + first;
        float gradient[kColumns];
#pragma unroll
        for (int v = 0; v < kColumns; ++v)
          gradient[v] = first + v * kLanes < part.dim ? __ldcv(sum + v * kLanes) : 0.0f;
#pragma unroll
        for (int v = 0; v < kColumns; ++v) value[v] += negative_rate * gradient[v] / deviation;
      }
#pragma unroll
      for (int v = 0; v < kColumns; ++v)
        if (first + v * kLanes < part.dim) record[first + v * kLanes] = value[v];
    }
  }
  __syncwarp();
  if (lane == 0) record[part.dim] = state;
}

__global__ void __launch_bounds__(kThreads)
    apply_kernel(const __grid_constant__ DeviceExchange x, const ReplicaPart part, float* rows, std::int64_t stride,
                 float negative_rate) {
  const RankParts& parts = parts_of(x, next_number(x));
  const std::int64_t units = barrier(x, false) ? x.ranks * part.rows : 0;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  for (std::int64_t unit = warp_number(); unit < units; unit += gridDim.x * kWarps) {
    const int rank = static_cast<int>(unit % x.ranks);
    const std::int64_t u = unit / x.ranks;
    const int id = load_id(parts.here[rank], u);
    if (id == ReplicaPart::kNoRow) continue;
    int place = -1;
    if (lane < x.ranks) {
      const auto id_at = [&](std::int64_t i) { return load_id(parts.here[lane], i); };
      place = lane == rank ? static_cast<int>(u) : place_of(id, part.rows, id_at);
    }
    const unsigned have = __ballot_sync(kAll, place >= 0);
    if (__ffs(static_cast<int>(have)) - 1 != rank) continue;  // it is the work of the first rank that has it
    update_row(parts, part, have, place, rows + id * stride, negative_rate);
  }
  part_ways(x);
}

unsigned blocks_of(std::int64_t warps, std::int64_t most) {
  return static_cast<unsigned>(std::clamp<std::int64_t>((warps + kWarps - 1) / kWarps, 1, most));
}

}  // namespace

void send_sums(const DeviceExchange& exchange, const ReplicaPart& part, const ReplicaRows& rows,
               std::uintptr_t stream_address) {
  const auto stream = reinterpret_cast<cudaStream_t>(stream_address);
  const unsigned blocks = blocks_of(part.entries * part.rows * ((part.dim + kLanes - 1) / kLanes), kSendBlocks);
  send_kernel<<<blocks, kThreads, 0, stream>>>(exchange, part, rows);
  cuda_check(cudaGetLastError(), "launching the sums of " + std::to_string(part.rows) + " rows for other ranks");
}

void apply_sums(const DeviceExchange& exchange, const ReplicaPart& part, float* rows, std::int64_t stride,
                float learning_rate, std::uintptr_t stream_address) {
  const auto stream = reinterpret_cast<cudaStream_t>(stream_address);
  if (!exchange.near && exchange.ranks > 1) {
    const std::int64_t pieces = (exchange.ranks - 1) * fetched_pieces(part);
    fetch_kernel<<<static_cast<unsigned>(std::min(pieces, kFetchBlocks)), kThreads, 0, stream>>>(exchange, part);
    cuda_check(cudaGetLastError(), "launching the fetch of " + std::to_string(part.rows) + " rows of each rank");
  }
  const unsigned blocks = blocks_of(exchange.ranks * part.rows, kApplyBlocks);
  const float negative_rate = -learning_rate;
  apply_kernel<<<blocks, kThreads, 0, stream>>>(exchange, part, rows, stride, negative_rate);
  cuda_check(cudaGetLastError(), "launching the updates of " + std::to_string(part.rows) + " rows of all ranks");
}

}  // namespace frugal::cuda
