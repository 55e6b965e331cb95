#include "kernels/cuda/row_updates.h"

#include <algorithm>
#include <string>

#include "device/cuda_check.h"
#include "kernels/cuda/device_warp.cuh"
#include "kernels/cuda/quotients.cuh"
#include "kernels/word_copy.h"
#include "memory/half.h"
#include "optim/mean_square.h"
#include "random/rounding_noise.h"

namespace frugal::cuda {
namespace {

constexpr int kThreads = 128, kWarps = kThreads / kWarpLanes;
constexpr int kFew = 4;                   // occurrences of a row that is one warp's work; more are that of blocks
constexpr int kVectors = 4;               // of kWarpLanes columns that a warp works on together
constexpr int kAhead = 32;                // occurrences that a thread loads before it adds them
constexpr std::int64_t kMostShares = 64;  // of the rows with many occurrences; 128 took longer (docs/step.md)

// The tables' rows count through: those of table t from first_row[t] on.
struct Updates {
  TableUpdate table[kMaxTables];
  std::int64_t first_row[kMaxTables + 1];
  float negative_rate;
  int tables;
  std::int64_t shares;  // of rows with many occurrences: every shares-th row is one's
  int slices;           // blocks of a share, each with kThreads columns of its rows

  FRUGAL_EVERYWHERE std::int64_t many_blocks() const { return shares * slices; }
};

struct RowOfTable {
  const TableUpdate* table;
  std::int64_t row;
};

__device__ RowOfTable find_row(const Updates& work, std::int64_t unit) {
  int t = 0;
#pragma unroll
  for (int other = 1; other < kMaxTables; ++other) t += other < work.tables && unit >= work.first_row[other];
  return {&work.table[t], unit - work.first_row[t]};
}

// A row's occurrences: those of the first entry, then those of the second one.
struct Occurrences {
  const StepGradients* gradients;
  std::int64_t begin[kMaxEntries];
  int of_first, count;

  __device__ Occurrences(const StepGradients& of, std::int64_t u) : gradients(&of) {
    int counts[kMaxEntries] = {};
#pragma unroll
    for (int e = 0; e < kMaxEntries; ++e)
      if (e < of.entries) {
        begin[e] = of.entry[e].offset[u];
        counts[e] = static_cast<int>(of.entry[e].offset[u + 1] - begin[e]);
      }
    of_first = counts[0];
    count = counts[0] + counts[1];
  }
  __device__ const EntryGradients& entry(int i) const { return gradients->entry[i < of_first ? 0 : 1]; }
  __device__ std::int64_t place(int i) const {
    return entry(i).place(i < of_first ? begin[0] + i : begin[1] + i - of_first);
  }
};

// Asks for a row's words all at once, by a warp, so that what comes next finds them in the first cache.
__device__ void touch(const float* row, std::int64_t floats) {
  constexpr int kSector = 8;  // floats that come together
  for (std::int64_t i = threadIdx.x % kWarpLanes * kSector; i < floats; i += kWarpLanes * kSector)
    asm volatile("prefetch.global.L1 [%0];" ::"l"(row + i));
}

__device__ Divisor deviation_of(float state) { return make_divisor(DeviceWarp::square_root(state) + 1e-10f); }

__device__ void store_half(const TableUpdate& s, float* to, std::int64_t column, float value, std::uint32_t noise) {
  reinterpret_cast<std::uint16_t*>(to)[column] = s.memory.element == RowElement::kFloat16
                                                     ? Half<RowElement::kFloat16>::round(value, noise)
                                                     : Half<RowElement::kBfloat16>::round(value, noise);
}

// Columns first + lane + 32 v of a row in halves. In a whole row they share a block of noise; of a rank that has some
// columns they may begin within one and go on in another.
__device__ void store_halves(const TableUpdate& s, float* to, std::int64_t first, const float (&values)[kVectors],
                             std::int64_t u) {
  const int own = static_cast<int>(first) + DeviceWarp::lane();
  std::uint32_t block = ~0u;
  std::uint64_t bits = 0;
  PhiloxWords words;
#pragma unroll 1
  for (int column = own; column < own + kVectors * kWarpLanes; column += kWarpLanes) {
    const std::uint32_t whole = s.rounding.by.columns.of(column);
    if (RoundingNoise::block_of(whole) != block) {
      block = RoundingNoise::block_of(whole);
      words = s.rounding.of(u).block(block);
    }
    bits = bits >> 16 | std::uint64_t{RoundingNoise::of_vector(words, RoundingNoise::vector_of(whole))} << 48;
  }
#pragma unroll
  for (int v = 0; v < kVectors; ++v)
    if (own + v * kWarpLanes < s.memory.dim)
      store_half(s, to, own + v * kWarpLanes, values[v], static_cast<std::uint32_t>(bits >> 16 * v) & 0xffffu);
}

// Which columns a lane has of those that a warp works on together: every 32nd one, wherever a row begins.
struct SpreadColumns {
  static constexpr int kOfLane = kVectors;

  static __device__ void load(const float* from, std::int64_t left, float (&x)[kOfLane]) {
#pragma unroll
    for (int v = 0; v < kOfLane; ++v)
      x[v] = DeviceWarp::load(from + v * kWarpLanes, active_lanes(left, v * kWarpLanes));
  }
  static __device__ void store(float* to, std::int64_t left, const float (&x)[kOfLane]) {
#pragma unroll
    for (int v = 0; v < kOfLane; ++v)
      DeviceWarp::store(to + v * kWarpLanes, x[v], active_lanes(left, v * kWarpLanes));
  }
};

// Four neighbours, in rows that begin at 16 bytes and have a multiple of four columns: a quarter of the loads.
struct NeighbourColumns {
  static constexpr int kOfLane = 4;

  static __device__ void load(const float* from, std::int64_t left, float (&x)[kOfLane]) {
    const int at = kOfLane * DeviceWarp::lane();
    const float4 word = at < left ? *reinterpret_cast<const float4*>(from + at) : float4{};
    x[0] = word.x, x[1] = word.y, x[2] = word.z, x[3] = word.w;
  }
  static __device__ void store(float* to, std::int64_t left, const float (&x)[kOfLane]) {
    const int at = kOfLane * DeviceWarp::lane();
    if (at < left) *reinterpret_cast<float4*>(to + at) = {x[0], x[1], x[2], x[3]};
  }
};

// Moves a row of `dim` columns by each of its `count` gradients in turn, by a warp: move(k, step) turns a gradient into
// what is added, store(first, values) stores a lane's columns from `first` on.
template <typename Columns, typename Move, typename Store>
__device__ void move_columns(const float* record, const float* const (&gradient)[kFew], int count, std::int64_t dim,
                             Move move, Store store) {
  constexpr int kOfLane = Columns::kOfLane;
  for (std::int64_t first = 0; first < dim; first += kOfLane * kWarpLanes) {
    float values[kOfLane];
    Columns::load(record + first, dim - first, values);
#pragma unroll
    for (int k = 0; k < kFew; ++k) {
      if (k >= count) break;
      float step[kOfLane];
      Columns::load(gradient[k] + first, dim - first, step);
      move(k, step);
#pragma unroll
      for (int v = 0; v < kOfLane; ++v) values[v] += step[v];
    }
    store(first, values);
  }
}

// By a warp, each lane of which looks one of the occurrences up.
template <bool kHalves>
__device__ void update_row_alone(const TableUpdate& s, std::int64_t u, const Occurrences& occurrences,
                                 float negative_rate) {
  const RowDestination leave = s.writes.leave[u];
  const std::int64_t target = s.writes.target[u], dim = s.memory.dim;
  const bool rounds = kHalves && s.memory.in_halves();
  const float* record = s.records + u * (kHalves ? s.memory.record_stride() : s.memory.stride);
  float state = record[dim];
  const int lane = DeviceWarp::lane(), count = occurrences.count;
  touch(record, dim);
  int place = 0;
  float square = 0.0f;
  if (lane < count) {
    place = static_cast<int>(occurrences.place(lane));
    square = occurrences.entry(lane).squares[place];
  }
  const float* gradient[kFew];
  float* const to = target_of(s.memory, leave, target);
  auto places = reinterpret_cast<std::uintptr_t>(record) | reinterpret_cast<std::uintptr_t>(to);
#pragma unroll
  for (int k = 0; k < kFew; ++k) {
    const EntryGradients& entry = occurrences.entry(k);
    gradient[k] = entry.values + __shfl_sync(DeviceWarp::kAll, place, k) * entry.stride;
    if (k >= count) continue;
    touch(gradient[k], dim);
    places |= reinterpret_cast<std::uintptr_t>(gradient[k]);
  }
  if (leave == RowDestination::kGradient) {
#pragma unroll
    for (int k = 0; k < kFew; ++k)
      if (k < count) copy_row<DeviceWarp>(to + k * s.memory.record_stride(), gradient[k], dim);
    return;
  }
  float after_first = state;
#pragma unroll
  for (int k = 0; k < kFew; ++k) {
    const float mean = __shfl_sync(DeviceWarp::kAll, square, k);
    if (k < count) state += mean;
    if (k < occurrences.of_first) after_first = state;
  }
  const Divisor first_deviation = deviation_of(after_first), last_deviation = deviation_of(state);
  const auto move = [&](int k, auto& step) {
#pragma unroll
    for (float& each : step) each = negative_rate * each;
    divide(step, k < occurrences.of_first ? first_deviation : last_deviation);
  };
  if (rounds)
    move_columns<SpreadColumns>(record, gradient, count, dim, move, [&](std::int64_t first, const auto& values) {
      store_halves(s, to, first, values, u);
    });
  else if (places % sizeof(float4) == 0 && dim % NeighbourColumns::kOfLane == 0)
    move_columns<NeighbourColumns>(record, gradient, count, dim, move, [&](std::int64_t first, const auto& values) {
      NeighbourColumns::store(to + first, dim - first, values);
    });
  else
    move_columns<SpreadColumns>(record, gradient, count, dim, move, [&](std::int64_t first, const auto& values) {
      SpreadColumns::store(to + first, dim - first, values);
    });
  if (lane == 0) to[rounds ? s.memory.embedding_floats() : dim] = state;
}

// As update_row_alone, by a block for each slice, a thread for each column.
template <bool kHalves>
__device__ void update_row_together(const TableUpdate& s, std::int64_t u, int slice, int slices, float negative_rate) {
  __shared__ float squares[kThreads];
  __shared__ const float* gradients[kThreads];
  const Occurrences occurrences(s.gradients, u);
  const RowDestination leave = s.writes.leave[u];
  const std::int64_t dim = s.memory.dim;
  const bool rounds = kHalves && s.memory.in_halves();
  const float* record = s.records + u * (kHalves ? s.memory.record_stride() : s.memory.stride);
  float* const to = target_of(s.memory, leave, s.writes.target[u]);
  const int count = occurrences.count;
  // Brings kThreads occurrences from number `first` on to shared memory, and returns how many of them there are.
  const auto look_up = [&](int first) {
    const int i = first + threadIdx.x;
    __syncthreads();  // the last ones have been used
    if (i < count) {
      const EntryGradients& entry = occurrences.entry(i);
      const std::int64_t place = occurrences.place(i);
      squares[threadIdx.x] = entry.squares[place];
      gradients[threadIdx.x] = entry.values + place * entry.stride;
    }
    __syncthreads();
    return count - first < kThreads ? count - first : kThreads;
  };
  if (leave == RowDestination::kGradient) {
    for (int first = 0; first < count; first += kThreads) {
      const int there = look_up(first);
      for (int i = slice * kWarps + threadIdx.x / kWarpLanes; i < there; i += slices * kWarps)
        copy_row<DeviceWarp>(to + (first + i) * s.memory.record_stride(), gradients[i], dim);
    }
    return;
  }
  float state = record[dim], after_first = state;
  for (int first = 0; first < count; first += kThreads) {
    const int there = look_up(first);
    const int turn = occurrences.of_first - first < there ? occurrences.of_first - first : there;
    int i = 0;
#pragma unroll 8
    for (; i < turn; ++i) state += squares[i];
    if (turn > 0) after_first = state;
#pragma unroll 8
    for (; i < there; ++i) state += squares[i];
  }
  const Divisor first_deviation = deviation_of(after_first), last_deviation = deviation_of(state);
  for (std::int64_t start = slice * kThreads; start < dim; start += slices * kThreads) {
    const std::int64_t column = start + threadIdx.x;
    const bool mine = column < dim;
    float value = mine ? record[column] : 0.0f;
    const auto move = [&](int i, int end, const Divisor& deviation) {
      for (; mine && i < end; i += kAhead) {
        float step[kAhead];
#pragma unroll
        for (int k = 0; k < kAhead; ++k)  // 0 beyond the last one
          step[k] = i + k < end ? negative_rate * gradients[i + k][column] : 0.0f;
        divide(step, deviation);
#pragma unroll
        for (int k = 0; k < kAhead; ++k)
          if (i + k < end) value += step[k];
      }
    };
    for (int first = 0; first < count; first += kThreads) {
      const int there = count <= kThreads ? count : look_up(first);
      const int others = occurrences.of_first - first, turn = others < 0 ? 0 : others < there ? others : there;
#pragma unroll 1  // one body for both entries, so that the kernel has less code
      for (int entry = 0; entry < kMaxEntries; ++entry)
        move(entry == 0 ? 0 : turn, entry == 0 ? turn : there, entry == 0 ? first_deviation : last_deviation);
    }
    if (mine && rounds)
      store_half(s, to, column, value, s.rounding.of(u).at(s.rounding.by.columns.of(column)));
    else if (mine)
      to[column] = value;
  }
  if (slice == 0 && threadIdx.x == 0) to[rounds ? s.memory.embedding_floats() : dim] = state;
}

// The first blocks each take a slice of the rows with many occurrences in a share, the others a row per warp.
// kHalves: whether a table has rows in halves.
template <bool kHalves>
__global__ void __launch_bounds__(kThreads, 8) update_kernel(const __grid_constant__ Updates work) {
  __shared__ unsigned many[kWarps];
  const std::int64_t rows = work.first_row[work.tables];
  const int warp = threadIdx.x / kWarpLanes;
  if (blockIdx.x >= work.many_blocks()) {
    const std::int64_t unit = (blockIdx.x - work.many_blocks()) * kWarps + warp;
    if (unit >= rows) return;
    const RowOfTable at = find_row(work, unit);
    const Occurrences occurrences(at.table->gradients, at.row);
    if (occurrences.count <= kFew && !at.table->writes.pads(at.row))
      update_row_alone<kHalves>(*at.table, at.row, occurrences, work.negative_rate);
    return;
  }
  const int slice = static_cast<int>(blockIdx.x / work.shares);
  for (std::int64_t first = blockIdx.x % work.shares; first < rows; first += kThreads * work.shares) {
    const std::int64_t mine = first + threadIdx.x * work.shares;
    bool has_many = false;
    if (mine < rows) {
      const RowOfTable at = find_row(work, mine);
      has_many = Occurrences(at.table->gradients, at.row).count > kFew;
    }
    const unsigned found = __ballot_sync(DeviceWarp::kAll, has_many);
    if (threadIdx.x % kWarpLanes == 0) many[warp] = found;
    __syncthreads();
    for (int w = 0; w < kWarps; ++w)
      for (unsigned left = many[w]; left != 0; left &= left - 1) {
        const int thread = w * kWarpLanes + __ffs(static_cast<int>(left)) - 1;
        const RowOfTable at = find_row(work, first + thread * work.shares);
        update_row_together<kHalves>(*at.table, at.row, slice, work.slices, work.negative_rate);
      }
    __syncthreads();  // before `many` is written again
  }
}

__global__ void __launch_bounds__(kThreads)
    squares_kernel(const float* values, std::int64_t stride, std::int64_t rows, std::int64_t dim, int power,
                   float* squares) {
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / kWarpLanes;
  if (row >= rows) return;
  const float* const gradient[1] = {values + row * stride};
  touch(gradient[0], dim);
  float mean[1];
  warp_mean_squares<DeviceWarp, 1>(gradient, dim, power, mean);
  if (DeviceWarp::lane() == 0) squares[row] = mean[0];
}

cudaStream_t stream_of(const Launch& launch) { return reinterpret_cast<cudaStream_t>(launch.stream); }

unsigned blocks_of_warps(std::int64_t count) { return static_cast<unsigned>((count + kWarps - 1) / kWarps); }

}  // namespace

void update(std::span<const TableUpdate> tables, float learning_rate, const Launch& launch) {
  Updates work{};
  work.negative_rate = -learning_rate;
  work.tables = static_cast<int>(tables.size());
  std::int64_t widest = 1;
  for (int t = 0; t < work.tables; ++t) {
    work.table[t] = tables[t];
    widest = std::max(widest, tables[t].memory.dim);
    work.first_row[t + 1] = work.first_row[t] + tables[t].writes.count;
  }
  const std::int64_t rows = work.first_row[work.tables];
  if (rows == 0) return;
  const auto in_halves = [](const TableUpdate& each) { return each.memory.in_halves(); };
  const auto kernel = std::any_of(tables.begin(), tables.end(), in_halves) ? update_kernel<true> : update_kernel<false>;
  work.shares = std::min(rows, kMostShares);
  work.slices = static_cast<int>((widest + kThreads - 1) / kThreads);
  const unsigned blocks = static_cast<unsigned>(work.many_blocks()) + blocks_of_warps(rows);
  kernel<<<blocks, kThreads, 0, stream_of(launch)>>>(work);
  cuda_check(cudaGetLastError(), "launching the update of " + std::to_string(rows) + " rows");
}

void mean_squares(const float* values, std::int64_t stride, std::int64_t rows, std::int64_t dim, float* squares,
                  const Launch& launch) {
  if (rows == 0) return;
  const int power = sum_level_power(dim / kSumPartials);
  squares_kernel<<<blocks_of_warps(rows), kThreads, 0, stream_of(launch)>>>(values, stride, rows, dim, power, squares);
  cuda_check(cudaGetLastError(), "launching the mean squares of " + std::to_string(rows) + " rows");
}

}  // namespace frugal::cuda
