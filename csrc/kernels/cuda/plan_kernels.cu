#include <algorithm>

#include "device/cuda_check.h"
#include "kernels/cuda/device_warp.cuh"
#include "kernels/cuda/plan_kernels.h"
#include "kernels/word_copy.h"
#include "optim/mean_square.h"

namespace frugal::cuda {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / kWarpLanes;
constexpr int kFew = 4;       // occurrences that one warp walks over; more are a block's work
constexpr int kTogether = 4;  // mean squares that a warp of such a block takes at a time
constexpr int kAhead = 16;    // its occurrences that a thread loads before it adds them

__device__ void copy_record(float* to, const float* from, const RowMemory& memory, int lane, int lanes) {
  copy_words(reinterpret_cast<Word*>(to), reinterpret_cast<const Word*>(from),
             static_cast<int>(memory.record_floats() / 4), lane, lanes);
}

// `lanes` threads per row, rows in turn over the whole grid.
__global__ void __launch_bounds__(kThreads) gather_kernel(RowMemory memory, RowReads reads, float* records, int lanes) {
  const int lane = threadIdx.x % lanes;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * (kThreads / lanes);
  for (std::int64_t u = static_cast<std::int64_t>(blockIdx.x) * (kThreads / lanes) + threadIdx.x / lanes;
       u < reads.count; u += step)
    if (reads.wants(u)) copy_record(records + u * memory.stride, source_of(memory, reads, u), memory, lane, lanes);
}

__global__ void __launch_bounds__(kThreads) return_kernel(RowMemory memory, RowReturns returns, int lanes) {
  const int lane = threadIdx.x % lanes;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * (kThreads / lanes);
  for (std::int64_t u = static_cast<std::int64_t>(blockIdx.x) * (kThreads / lanes) + threadIdx.x / lanes;
       u < returns.count; u += step)
    if (returns.leave[u] == Leave::kHostRow)
      copy_record(memory.host_rows + returns.rows[u] * memory.stride, memory.cache + returns.target[u] * memory.stride,
                  memory, lane, lanes);
}

__global__ void __launch_bounds__(kThreads)
    write_back_kernel(RowMemory memory, const WriteBack* write_backs, std::int64_t count, int lanes) {
  const int lane = threadIdx.x % lanes;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * (kThreads / lanes);
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * (kThreads / lanes) + threadIdx.x / lanes; i < count;
       i += step) {
    const WriteBack& wanted = write_backs[i];
    copy_record(target_of(memory, wanted.leave, wanted.target), memory.cache + wanted.slot * memory.stride, memory,
                lane, lanes);
  }
}

// What an update works on besides the row.
struct Update {
  RowMemory memory;
  RowWrites writes;
  const float* records;
  StepGradients gradients;
  float learning_rate;
  int power;  // sum_level_power
};

__device__ std::int64_t occurrences(const StepGradients& gradients, std::int64_t u) {
  std::int64_t count = 0;
#pragma unroll
  for (int e = 0; e < kMaxEntries; ++e)
    if (e < gradients.entries) count += gradients.entry[e].offset[u + 1] - gradients.entry[e].offset[u];
  return count;
}

// Asks for a row's words all at once, by a warp, so that what comes next finds them in the first cache.
__device__ void touch(const float* row, std::int64_t floats) {
  constexpr int kSector = 8;  // floats that come together
  for (std::int64_t i = threadIdx.x % kWarpLanes * kSector; i < floats; i += kWarpLanes * kSector)
    asm volatile("prefetch.global.L1 [%0];" ::"l"(row + i));
}

// As update_row, by a block: a warp takes the mean square of every kWarps-th occurrence and a thread walks over the
// occurrences of its columns, so that sums have the order of occurrences.
__device__ void update_row_together(const Update& s, std::int64_t u) {
  __shared__ float squares[kThreads];
  __shared__ const float* occurrence[kThreads];
  const int lane = threadIdx.x % kWarpLanes, warp = threadIdx.x / kWarpLanes;
  const std::int64_t dim = s.memory.dim, stride = s.memory.stride;
  const float* record = s.records + u * stride;
  float* const to = target_of(s.memory, s.writes.leave[u], s.writes.target[u]);
  // Calls body(count) for each entry's occurrences, at most kThreads at a time, with their places in `occurrence`.
  const auto for_occurrences = [&](int e, auto body) {
    const EntryGradients& entry = s.gradients.entry[e];
    const std::int64_t end = entry.offset[u + 1];
    for (std::int64_t first = entry.offset[u]; first < end; first += kThreads) {
      const int count = static_cast<int>(end - first < kThreads ? end - first : kThreads);
      __syncthreads();  // the last ones have been used
      if (threadIdx.x < count) occurrence[threadIdx.x] = entry.occurrence(first + threadIdx.x);
      if (threadIdx.x < count && entry.mean_square) squares[threadIdx.x] = entry.given_mean_square(first + threadIdx.x);
      __syncthreads();
      body(count);
    }
  };
  if (s.writes.leave[u] == Leave::kGradient) {
    std::int64_t sent = 0;
#pragma unroll
    for (int e = 0; e < kMaxEntries; ++e) {
      if (e == s.gradients.entries) break;
      for_occurrences(e, [&](int count) {
        for (int i = warp; i < count; i += kWarps) copy_row<DeviceWarp>(to + (sent + i) * stride, occurrence[i], dim);
        sent += count;
      });
    }
    return;
  }
  float state = record[dim];
  Divisor deviation[kMaxEntries];
#pragma unroll
  for (int e = 0; e < kMaxEntries; ++e) {
    if (e == s.gradients.entries) break;
    for_occurrences(e, [&](int count) {
      for (int i = warp; i < count && !s.gradients.entry[e].mean_square; i += kTogether * kWarps) {
        const float* gradient[kTogether];
        float mean[kTogether];
#pragma unroll
        for (int c = 0; c < kTogether; ++c)  // beyond the last one: that again
          gradient[c] = occurrence[i + c * kWarps < count ? i + c * kWarps : count - 1];
        warp_mean_squares<DeviceWarp, kTogether>(gradient, dim, s.power, mean);
#pragma unroll
        for (int c = 0; c < kTogether; ++c)
          if (lane == 0 && i + c * kWarps < count) squares[i + c * kWarps] = mean[c];
      }
      __syncthreads();
#pragma unroll 8
      for (int i = 0; i < count; ++i) state += squares[i];
    });
    deviation[e] = make_divisor(DeviceWarp::square_root(state) + 1e-10f);
  }
  for (std::int64_t first = 0; first < dim; first += kThreads) {
    const std::int64_t column = first + threadIdx.x;
    const bool mine = column < dim;
    float value = mine ? record[column] : 0.0f;
#pragma unroll
    for (int e = 0; e < kMaxEntries; ++e) {
      if (e == s.gradients.entries) break;
      for_occurrences(e, [&](int count) {
        for (int i = 0; mine && i < count; i += kAhead) {
          float step[kAhead];
#pragma unroll
          for (int k = 0; k < kAhead; ++k)  // 0 beyond the last one
            step[k] = i + k < count ? -s.learning_rate * occurrence[i + k][column] : 0.0f;
          divide(step, deviation[e]);
#pragma unroll
          for (int k = 0; k < kAhead; ++k)
            if (i + k < count) value += step[k];
        }
      });
    }
    if (mine) to[column] = value;
  }
  if (threadIdx.x == 0) to[dim] = state;
}

__device__ void update_row_alone(const Update& s, std::int64_t u) {
  const float* record = s.records + u * s.memory.stride;
  touch(record, s.memory.dim + 1);
#pragma unroll
  for (int e = 0; e < kMaxEntries; ++e)
    if (e < s.gradients.entries)
      for (std::int64_t i = s.gradients.entry[e].offset[u]; i < s.gradients.entry[e].offset[u + 1]; ++i)
        touch(s.gradients.entry[e].occurrence(i), s.memory.dim);
  update_row<DeviceWarp>(s.memory, s.writes.leave[u], s.writes.target[u], record, s.gradients, u, s.learning_rate,
                         s.power);
}

// Each warp of a block updates a row with few occurrences; then the block works on its rows with many.
__global__ void __launch_bounds__(kThreads, 3) update_kernel(Update s) {
  const std::int64_t blocks = gridDim.x;
  for (std::int64_t u = blockIdx.x + threadIdx.x / kWarpLanes * blocks; u < s.writes.count; u += kWarps * blocks)
    if (occurrences(s.gradients, u) <= kFew) update_row_alone(s, u);
  for (std::int64_t first = blockIdx.x; first < s.writes.count; first += kWarps * blocks) {
    const std::int64_t mine = first + threadIdx.x % kWarps * blocks;  // every warp looks at all of them
    unsigned many = __ballot_sync(DeviceWarp::kAll, mine < s.writes.count && occurrences(s.gradients, mine) > kFew);
    for (many &= (1u << kWarps) - 1; many != 0; many &= many - 1)
      update_row_together(s, first + (__ffs(static_cast<int>(many)) - 1) * blocks);
  }
}

// Kernels before this one on the stream are done, but what they wrote to host memory is only ordered before the counter
// by the fence; the volatile store is not kept back by any cache.
__global__ void publish_kernel(std::uint64_t* counter, const std::int64_t* value) {
  __threadfence_system();
  *reinterpret_cast<volatile std::uint64_t*>(counter) = static_cast<std::uint64_t>(*value);
}

cudaStream_t stream_of(const Launch& launch) { return reinterpret_cast<cudaStream_t>(launch.stream); }

int lanes_for(const RowMemory& memory) { return lanes_for_words(memory.record_floats() / 4); }

unsigned blocks_for(std::int64_t rows, int lanes, int most) {
  const std::int64_t rows_per_block = kThreads / lanes;
  return static_cast<unsigned>(std::min<std::int64_t>((rows + rows_per_block - 1) / rows_per_block, most));
}

int bus_blocks(const Launch& launch) { return launch.max_blocks > 0 ? launch.max_blocks : kBusBlocks; }

}  // namespace

void gather(const RowMemory& memory, const RowReads& reads, float* records, const Launch& launch) {
  if (reads.count == 0) return;
  const int lanes = lanes_for(memory);
  gather_kernel<<<blocks_for(reads.count, lanes, bus_blocks(launch)), kThreads, 0, stream_of(launch)>>>(memory, reads,
                                                                                                        records, lanes);
  cuda_check(cudaGetLastError(), "launching the gather of " + std::to_string(reads.count) + " rows");
}

void update(const RowMemory& memory, const RowWrites& writes, const float* records, const StepGradients& gradients,
            float learning_rate, const Launch& launch) {
  if (writes.count == 0) return;
  const Update work{memory, writes, records, gradients, learning_rate, sum_level_power(memory.dim / kSumPartials)};
  constexpr std::int64_t kSpread = 256, kMost = 1 << 16;  // blocks; loops cover the rest
  const std::int64_t blocks = std::max((writes.count + kWarps - 1) / kWarps, std::min(writes.count, kSpread));
  update_kernel<<<static_cast<unsigned>(std::min(blocks, kMost)), kThreads, 0, stream_of(launch)>>>(work);
  cuda_check(cudaGetLastError(), "launching the update of " + std::to_string(writes.count) + " rows");
}

void return_rows(const RowMemory& memory, const RowReturns& returns, const Launch& launch) {
  if (returns.count == 0) return;
  const int lanes = lanes_for(memory);
  return_kernel<<<blocks_for(returns.count, lanes, bus_blocks(launch)), kThreads, 0, stream_of(launch)>>>(
      memory, returns, lanes);
  cuda_check(cudaGetLastError(), "launching the return of " + std::to_string(returns.count) + " rows");
}

void write_back(const RowMemory& memory, const WriteBack* write_backs, std::int64_t count, const Launch& launch) {
  if (count == 0) return;
  const int lanes = lanes_for(memory);
  write_back_kernel<<<blocks_for(count, lanes, bus_blocks(launch)), kThreads, 0, stream_of(launch)>>>(
      memory, write_backs, count, lanes);
  cuda_check(cudaGetLastError(), "launching the write-back of " + std::to_string(count) + " rows");
}

void publish(std::uint64_t* counter, const std::int64_t* value, const Launch& launch) {
  publish_kernel<<<1, 1, 0, stream_of(launch)>>>(counter, value);
  cuda_check(cudaGetLastError(), "launching the publication of a step");
}

}  // namespace frugal::cuda
