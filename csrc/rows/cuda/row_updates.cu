#include "rows/cuda/row_updates.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "base/device/cuda_check.h"
#include "base/device/quotients.cuh"
#include "base/half.h"
#include "base/random/rounding_noise.h"
#include "rows/cuda/device_warp.cuh"
#include "rows/word_copy.h"
#include "table/mean_square.h"

namespace frugal::cuda {
namespace {

constexpr int kThreads = 128, kWarps = kThreads / kWarpLanes;
constexpr int kAhead = 16;   // occurrences that a thread loads before it adds them
constexpr std::int64_t kManyBlocks = 512;  // for rows with many occurrences; 256 and 1024 took longer
constexpr int kHot = 48;                 // a row with more occurrences is hot
constexpr int kHotColumns = 8;           // of a hot row, by a block
constexpr int kHeld = 1152;              // occurrences of a hot row that are looked up at once
constexpr int kHotAhead = 16;            // occurrences that a thread loads and divides between two barriers
constexpr std::int64_t kHotBlocks = 200;  // for hot rows: as many shares of them as there are blocks for all columns
// Groups of threads share the occurrences of a hot row, and divide so many of them between two barriers.
constexpr int kGroups = (kWarps - 1) * kWarpLanes / kHotColumns, kRound = kGroups * kHotAhead;
constexpr int kRoundWords = kRound / 4, kSquares = 32;  // words of four quotients; mean squares added at once
static_assert(kHot <= kThreads && kHeld % kRound == 0 && kHeld % kThreads == 0);

// The tables' rows count through: those of table t from first_row[t] on.
struct Updates {
  TableUpdate table[kMaxTables];
  std::int64_t first_row[kMaxTables + 1];
  bool aligned[kMaxTables];  // whether rows are as LaneColumns takes them
  float negative_rate;
  int tables;
  std::int64_t shares;  // of busy rows that are not hot: every shares-th one is one's
  int slices;           // blocks of a share, each with kThreads columns of its rows
  std::int64_t hot_shares;  // of the hot rows
  int hot_slices;           // blocks of one of these shares, each with kHotColumns columns

  FRUGAL_EVERYWHERE std::int64_t many_blocks() const { return shares * slices; }
  FRUGAL_EVERYWHERE std::int64_t hot_blocks() const { return hot_shares * hot_slices; }
};

struct RowOfTable {
  const TableUpdate* table;
  std::int64_t row;
  bool aligned;
};

__device__ RowOfTable find_row(const Updates& work, std::int64_t unit) {
  int t = 0;
#pragma unroll
  for (int other = 1; other < kMaxTables; ++other) t += other < work.tables && unit >= work.first_row[other];
  return {&work.table[t], unit - work.first_row[t], work.aligned[t]};
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
  __device__ int of_entry(int e) const { return e == 0 ? of_first : count - of_first; }
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

__device__ void store_half(float* to, std::int64_t column, float value, std::uint32_t noise) {
  reinterpret_cast<std::uint16_t*>(to)[column] = Half::round(value, noise);
}

// By what columns first + lane + kLanes k of a row in half precision are rounded: calls take(column, 16 bits) for each,
// below `end`. In a whole row eight of them share a block of noise; of a rank that has some columns they may begin
// within one and go on in another.
template <int kLanes, typename Take>
__device__ void make_noise(const TableUpdate& s, std::int64_t u, int first, int end, Take take) {
  std::uint32_t block = ~0u;
  PhiloxWords words;
#pragma unroll 1
  for (int column = first + DeviceWarp::lane() % kLanes; column < end; column += kLanes) {
    const std::uint32_t whole = s.rounding.by.columns.of(column);
    if (RoundingNoise::block_of(whole) != block) {
      block = RoundingNoise::block_of(whole);
      words = s.rounding.of(u).block(block);
    }
    take(column, RoundingNoise::of_vector(words, RoundingNoise::vector_of(whole)));
  }
}

// A lane's columns of the ones that the kLanes lanes of a row keep in registers at once: four neighbours of each
// 4 * kLanes. Rows begin at 16 bytes, and have room for whole words of four; in half precision they are whole words.
template <int kLanes>
struct LaneColumns {
  static constexpr int kWords = 4, kCount = 4 * kWords, kOfRow = kCount * kLanes;

  static __device__ int place(int word) { return 4 * (word * kLanes + DeviceWarp::lane() % kLanes); }
  static __device__ void load(const float* from, int left, float (&x)[kCount]) {
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      const int at = place(w);
      const float4 word = at < left ? *reinterpret_cast<const float4*>(from + at) : float4{};
      x[4 * w] = word.x, x[4 * w + 1] = word.y, x[4 * w + 2] = word.z, x[4 * w + 3] = word.w;
    }
  }
  // noise: by what they are rounded, 16 bits for each of the row's columns.
  static __device__ void store_half(float* to, int left, const float (&x)[kCount], const std::uint16_t* noise) {
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      const int at = place(w);
      if (at >= left) continue;
      const uint2 by = *reinterpret_cast<const uint2*>(noise + at);
      const auto round = [&](int k, std::uint32_t bits) -> std::uint32_t {
        return Half::round(x[4 * w + k], bits);
      };
      *reinterpret_cast<uint2*>(reinterpret_cast<std::uint16_t*>(to) + at) = {
          round(0, by.x & 0xffffu) | round(1, by.x >> 16) << 16, round(2, by.y & 0xffffu) | round(3, by.y >> 16) << 16};
    }
  }
  static __device__ void store(float* to, int left, const float (&x)[kCount]) {
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      const int at = place(w);
      if (at + 4 <= left) {
        *reinterpret_cast<float4*>(to + at) = {x[4 * w], x[4 * w + 1], x[4 * w + 2], x[4 * w + 3]};
        continue;
      }
#pragma unroll
      for (int k = 0; k < 3; ++k)  // the row's state may be next
        if (at + k < left) to[at + k] = x[4 * w + k];
    }
  }
};

// The few occurrences of each of a warp's rows, which the first of a row's kLanes lanes have looked up.
template <int kLanes>
struct FewOccurrences {
  const StepGradients& gradients;
  int of_first, count;
  int most;      // of any of the warp's rows
  int place;     // of the lane's own
  float square;  // its mean square

  // wanted: whether the row's occurrences are; else it has none.
  __device__ FewOccurrences(const Occurrences& all, bool wanted)
      : gradients(*all.gradients), of_first(all.of_first), count(wanted ? all.count : 0), place(0), square(0.0f) {
    most = count;
#pragma unroll
    for (int other = kLanes; other < kWarpLanes; other *= 2) {
      const int theirs = __shfl_xor_sync(DeviceWarp::kAll, most, other);
      most = most > theirs ? most : theirs;
    }
    const int lane = DeviceWarp::lane() % kLanes;
    if (lane >= count) return;
    place = static_cast<int>(all.place(lane));
    square = all.entry(lane).square(place);
  }
  // By all lanes: number k of each row, or any gradient of a row that has fewer.
  __device__ const float* gradient(int k) const {
    const EntryGradients& entry = gradients.entry[k < of_first ? 0 : 1];
    return entry.values + __shfl_sync(DeviceWarp::kAll, place, k, kLanes) * entry.stride;
  }
};

// A row as its update finds and leaves it.
struct RowMove {
  const float* record;
  float* to;
  float negative_rate, state;
  Divisor first, last;  // deviations

  __device__ RowMove(const TableUpdate& s, std::int64_t u, std::int64_t stride, float rate)
      : record(s.records + u * stride), to(target_of(s.memory, s.writes.leave[u], s.writes.target[u])),
        negative_rate(rate), state(record[s.memory.dim]) {}

  template <int kLanes>
  __device__ void add_squares(const FewOccurrences<kLanes>& few) {
    float after_first = state;
#pragma unroll 1
    for (int k = 0; k < few.most; ++k) {
      const float square = __shfl_sync(DeviceWarp::kAll, few.square, k, kLanes);
      if (k < few.count) state += square;
      if (k < few.of_first) after_first = state;
    }
    first = deviation_of(after_first), last = deviation_of(state);
  }
};

// Whatever its numbers, and wherever its rows begin: by a warp.
__device__ __noinline__ void update_row_generic(const TableUpdate& s, std::int64_t u, float negative_rate) {
  update_row<DeviceWarp>(s.memory, s.writes.leave[u], s.writes.target[u], s.records + u * s.memory.record_stride(),
                         s.gradients, u, -negative_rate, 0);
}

// The same of a row in half precision.
__device__ __noinline__ void update_half_row_generic(const TableUpdate& s, std::int64_t u, float negative_rate) {
  const int dim = static_cast<int>(s.memory.dim);
  RowMove row(s, u, s.memory.record_stride(), negative_rate);
  const FewOccurrences<kWarpLanes> few(Occurrences(s.gradients, u), true);
  row.add_squares(few);
  for (int first = 0; first < dim; first += kWarpLanes) {
    const int active = active_lanes(dim, first);
    float value[1] = {DeviceWarp::load(row.record + first, active)};
#pragma unroll 1
    for (int k = 0; k < few.count; ++k) {
      float step[1] = {negative_rate * DeviceWarp::load(few.gradient(k) + first, active)};
      divide(step, k < few.of_first ? row.first : row.last);
      value[0] += step[0];
    }
    make_noise<kWarpLanes>(s, u, first, first + active,
               [&](int column, std::uint32_t noise) { store_half(row.to, column, value[0], noise); });
  }
  if (DeviceWarp::lane() == 0) row.to[s.memory.embedding_floats()] = row.state;
}

// By a warp: the rows from number `first_row` on that have few occurrences, each by kLanes of its lanes, which must be
// all of them unless the lanes have room for all columns of any row. Where a number turns out to be outside the normal
// range the row is moved once more, from its record, which no row leaves to. noise: shared memory of the warp's own, of
// kWarpLanes * LaneColumns::kCount columns.
template <bool kHalfPrecision, int kLanes>
__device__ void update_rows_alone(const Updates& work, std::int64_t first_row, std::uint16_t* noise) {
  using Columns = LaneColumns<kLanes>;
  const float negative_rate = work.negative_rate;
  const int lane = DeviceWarp::lane();
  const std::int64_t rows = work.first_row[work.tables], mine = first_row + lane / kLanes;
  const RowOfTable at = find_row(work, mine < rows ? mine : rows - 1);
  const TableUpdate& s = *at.table;
  const std::int64_t u = at.row;
  const int dim = static_cast<int>(s.memory.dim);
  const bool rounds = kHalfPrecision && s.memory.is_half();
  const Occurrences occurrences(s.gradients, u);
  const bool wanted = mine < rows && occurrences.count <= kFewOccurrences && !s.writes.pads(u);
  bool by_columns = wanted && at.aligned && s.writes.leave[u] != RowDestination::kGradient;
  RowMove row(s, u, kHalfPrecision ? s.memory.record_stride() : s.memory.stride, negative_rate);
  const FewOccurrences<kLanes> few(occurrences, by_columns);
  float values[Columns::kCount], step[Columns::kCount];  // on their way while mean squares are
  Columns::load(row.record, by_columns ? dim : 0, values);
  Columns::load(few.gradient(0), few.count > 0 ? dim : 0, step);
  row.add_squares(few);
  std::uint16_t* const mine_of_noise = noise + lane / kLanes * Columns::kOfRow;
  bool normal_range = true;
  for (int first = 0;;) {
    if constexpr (kHalfPrecision) {  // while the row's words are on their way
      const int end = dim < first + Columns::kOfRow ? dim : first + Columns::kOfRow;
      __syncwarp();  // the last one's noise has been used
      if (rounds)
        make_noise<kLanes>(s, u, first, end,
                           [&](int column, std::uint32_t bits) { mine_of_noise[column - first] = bits; });
      __syncwarp();
    }
#pragma unroll 1
    for (int k = 0; k < few.most; ++k) {
      const float* const gradient = few.gradient(k) + first;
      if (k >= few.count) continue;
      if (k > 0) Columns::load(gradient, dim - first, step);
#pragma unroll
      for (float& each : step) each = row.negative_rate * each;
      normal_range = normal_range & divide_in_normal_range(step, k < few.of_first ? row.first : row.last);
#pragma unroll
      for (int v = 0; v < Columns::kCount; ++v) values[v] += step[v];
    }
    constexpr unsigned kOfRow = kLanes == kWarpLanes ? DeviceWarp::kAll : (1u << kLanes % kWarpLanes) - 1;
    const unsigned others = __ballot_sync(DeviceWarp::kAll, !normal_range) >> lane / kLanes * kLanes;
    by_columns = by_columns && (others & kOfRow) == 0;
    if (!rounds)
      Columns::store(row.to + first, by_columns ? dim - first : 0, values);
    else if constexpr (kHalfPrecision)
      Columns::store_half(row.to + first / 2, by_columns ? dim - first : 0, values, mine_of_noise);
    first += Columns::kOfRow;
    if (kLanes < kWarpLanes || first >= dim || !by_columns) break;
    Columns::load(row.record + first, dim - first, values);
    Columns::load(few.gradient(0) + first, few.count > 0 ? dim - first : 0, step);
  }
  if (by_columns && lane % kLanes == 0) row.to[rounds ? s.memory.embedding_floats() : dim] = row.state;
  for (unsigned left = __ballot_sync(DeviceWarp::kAll, wanted && !by_columns && lane % kLanes == 0); left != 0;
       left &= left - 1) {
    const RowOfTable of = find_row(work, first_row + (__ffs(static_cast<int>(left)) - 1) / kLanes);
    if constexpr (kHalfPrecision)
      if (of.table->memory.is_half() && of.table->writes.leave[of.row] != RowDestination::kGradient) {
        update_half_row_generic(*of.table, of.row, negative_rate);
        continue;
      }
    update_row_generic(*of.table, of.row, negative_rate);
  }
}

// Whether warps share a row's occurrences, too: a thread for each column would wait for one after the other.
__device__ bool is_hot(int count, RowDestination leave) {
  return (count > kHot) & (leave != RowDestination::kGradient);
}

// Adds floats of shared memory, in their order: `count`, up to a multiple of kAtOnce. The next words are on their way
// while some are added.
template <int kAtOnce>
__device__ void add_words(const float4* words, int count, float& sum) {
  constexpr int kWords = 4, kParts = kAtOnce / 4 / kWords;
  float4 next[kWords];
#pragma unroll
  for (int k = 0; k < kWords; ++k) next[k] = words[k];
#pragma unroll 1
  for (int i = 0; i < count; i += kAtOnce, words += kAtOnce / 4) {
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      float4 now[kWords];
#pragma unroll
      for (int k = 0; k < kWords; ++k) now[k] = next[k];
      if (part + 1 < kParts || i + kAtOnce < count) {
#pragma unroll
        for (int k = 0; k < kWords; ++k) next[k] = words[(part + 1) * kWords + k];
      }
#pragma unroll
      for (const float4& word : now) sum += word.x, sum += word.y, sum += word.z, sum += word.w;
    }
  }
}

// As update_row_alone, by a block for each slice, a thread for each column.
template <bool kHalfPrecision>
__device__ void update_row_together(const TableUpdate& s, std::int64_t u, int slice, int slices, float negative_rate) {
  __shared__ float squares[kThreads];
  __shared__ const float* gradients[kThreads];
  const Occurrences occurrences(s.gradients, u);
  const RowDestination leave = s.writes.leave[u];
  const std::int64_t dim = s.memory.dim;
  const bool rounds = kHalfPrecision && s.memory.is_half();
  const float* record = s.records + u * (kHalfPrecision ? s.memory.record_stride() : s.memory.stride);
  float* const to = target_of(s.memory, leave, s.writes.target[u]);
  const int count = occurrences.count;
  // Brings kThreads occurrences from number `first` on to shared memory, and returns how many of them there are.
  const auto look_up = [&](int first) {
    const int i = first + threadIdx.x;
    __syncthreads();  // the last ones have been used
    if (i < count) {
      const EntryGradients& entry = occurrences.entry(i);
      const std::int64_t place = occurrences.place(i);
      squares[threadIdx.x] = entry.square(place);
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
  look_up(0);  // all of them, since the row is not hot
  float state = record[dim], after_first = state;
#pragma unroll 8
  for (int i = 0; i < occurrences.of_first; ++i) after_first += squares[i];
  if (occurrences.of_first > 0) state = after_first;
#pragma unroll 8
  for (int i = occurrences.of_first; i < count; ++i) state += squares[i];
  const Divisor first_deviation = deviation_of(after_first), last_deviation = deviation_of(state);
  for (std::int64_t start = slice * kThreads; start < dim; start += slices * kThreads) {
    const std::int64_t column = start + threadIdx.x;
    if (column >= dim) continue;
    float value = record[column];
    const std::uint32_t noise = rounds ? s.rounding.of(u).at(s.rounding.by.columns.of(column)) : 0;
#pragma unroll 1  // one body for both entries, so that the kernel has less code
    for (int entry = 0; entry < kMaxEntries; ++entry) {
      const int end = entry == 0 ? occurrences.of_first : count;
      const Divisor& deviation = entry == 0 ? first_deviation : last_deviation;
      for (int i = entry == 0 ? 0 : occurrences.of_first; i < end; i += kAhead) {
        float step[kAhead];
#pragma unroll
        for (int k = 0; k < kAhead; ++k)  // 0 beyond the last one
          step[k] = i + k < end ? negative_rate * gradients[i + k][column] : 0.0f;
        if (divide_in_normal_range(step, deviation)) {
#pragma unroll
          for (int k = 0; k < kAhead; ++k)
            if (i + k < end) value += step[k];
        } else {
#pragma unroll 1
          for (int k = i; k < end && k < i + kAhead; ++k)
            value += any_quotient(negative_rate * gradients[k][column], deviation.value);
        }
      }
    }
    if (!rounds)
      to[column] = value;
    else if constexpr (kHalfPrecision)
      store_half(to, column, value, noise);
  }
  if (slice == 0 && threadIdx.x == 0) to[rounds ? s.memory.embedding_floats() : dim] = state;
}

// As update_row_together, of a hot row: a block has kHotColumns of its columns, of which each group of threads loads
// and divides other occurrences. The last warp adds them, in the order of all rows. What fills up a round is -0, which
// changes no sum.
template <bool kHalfPrecision>
__device__ void update_hot_row(const TableUpdate& s, std::int64_t u, int slice, float negative_rate) {
  __shared__ float4 squares[kHeld / 4];
  __shared__ const float* gradients[kHeld];
  __shared__ float4 quotients[2][kHotColumns][kRoundWords + 1];  // one word more spreads columns over banks
  const Occurrences occurrences(s.gradients, u);
  const std::int64_t dim = s.memory.dim;
  const bool rounds = kHalfPrecision && s.memory.is_half();
  const float* record = s.records + u * (kHalfPrecision ? s.memory.record_stride() : s.memory.stride);
  const int thread = static_cast<int>(threadIdx.x), group = thread / kHotColumns, of_group = thread % kHotColumns;
  const std::int64_t column = slice * kHotColumns + of_group;
  const bool mine = column < dim, adds = group == kGroups, divides = group < kGroups && mine;
  float state = record[dim], first_state = state;
  float value = adds && mine ? record[column] : 0.0f;
  const bool of_one = occurrences.of_first == 0 || occurrences.of_first == occurrences.count;
  const bool held = of_one && occurrences.count <= kHeld;  // where one look is enough
  // Brings at most kHeld occurrences of an entry from number `first` on to shared memory, and returns how many there
  // are. Behind the last one that one is looked up again, since loads with a condition each would wait for each other;
  // for the same reason squares are made of the ranks' parts for all at once, as EntryGradients::square makes one.
  const auto look_up = [&](int e, int first) {
    const EntryGradients& entry = s.gradients.entry[e];
    const int left = occurrences.of_entry(e) - first, there = left < kHeld ? left : kHeld;
    constexpr int kEach = kHeld / kThreads;
    int place[kEach];
    float square[kEach];
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      const int i = j * kThreads + thread;
      place[j] = static_cast<int>(entry.place(occurrences.begin[e] + first + (i < there ? i : there - 1)));
    }
#pragma unroll
    for (int j = 0; j < kEach; ++j) square[j] = entry.squares[place[j]];
#pragma unroll 1
    for (int part = 1; part < entry.square_parts; ++part) {
#pragma unroll
      for (int j = 0; j < kEach; ++j) square[j] += entry.squares[place[j] + part * entry.next_part];
    }
    __syncthreads();  // the last ones have been used
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      const int i = j * kThreads + thread;
      gradients[i] = entry.values + place[j] * entry.stride;
      if (entry.square_parts > 1) square[j] = square[j] / static_cast<float>(entry.square_parts);
      reinterpret_cast<float*>(squares)[i] = i < there ? square[j] : -0.0f;
    }
    __syncthreads();
    return there;
  };
#pragma unroll 1
  for (int e = 0; e < s.gradients.entries; ++e) {
#pragma unroll 1
    for (int first = 0; first < occurrences.of_entry(e); first += kHeld)
      add_words<kSquares>(squares, look_up(e, first), state);
    if (e == 0) first_state = state;
  }
  int turns = 0;
#pragma unroll 1
  for (int e = 0; e < s.gradients.entries; ++e) {
    const Divisor deviation = deviation_of(e == 0 ? first_state : state);
#pragma unroll 1
    for (int first = 0; first < occurrences.of_entry(e); first += kHeld) {
      const int there = held ? occurrences.count : look_up(e, first);
      float step[kHotAhead];
      const auto load = [&](int from) {
#pragma unroll
        for (int k = 0; k < kHotAhead; ++k) step[k] = gradients[from + k][column];
      };
      if (divides) load(group * kHotAhead);
#pragma unroll 1
      for (int begin = 0; begin < there; begin += kRound, turns ^= 1) {
        if (divides) {
          const int from = begin + group * kHotAhead;
          float4* const out = &quotients[turns][of_group][group * (kHotAhead / 4)];
#pragma unroll
          for (int k = 0; k < kHotAhead; ++k) step[k] = negative_rate * step[k];
          if (from + kHotAhead > there) {
#pragma unroll
            for (int k = 0; k < kHotAhead; ++k) step[k] = from + k < there ? step[k] : -0.0f;
          }
          const bool normal_range = divide_in_normal_range(step, deviation);
#pragma unroll
          for (int k = 0; k < kHotAhead; k += 4) out[k / 4] = {step[k], step[k + 1], step[k + 2], step[k + 3]};
          if (!normal_range) {
#pragma unroll 1
            for (int k = 0; k < kHotAhead; ++k)
              reinterpret_cast<float*>(out)[k] =
                  from + k < there ? any_quotient(negative_rate * gradients[from + k][column], deviation.value) : -0.0f;
          }
          if (begin + kRound < there) load(from + kRound);
        }
        __syncthreads();
        if (adds) add_words<kRound>(quotients[turns][of_group], kRound, value);
      }
    }
  }
  float* const to = target_of(s.memory, s.writes.leave[u], s.writes.target[u]);
  if (adds && mine) {
    if (!rounds)
      to[column] = value;
    else if constexpr (kHalfPrecision)
      store_half(to, column, value, s.rounding.of(u).at(s.rounding.by.columns.of(column)));
  }
  if (slice == 0 && threadIdx.x == 0) to[rounds ? s.memory.embedding_floats() : dim] = state;
}

// By a block: calls take(table's update, row) for the rows of a share that are hot, or else for the other busy ones. Of
// a table's busy rows a share has every shares-th one; those of the first table begin with the last share and those of
// the others with the first, so that the busiest rows of two tables are different shares'.
template <bool kOfHot, typename Take>
__device__ void each_row(const Updates& work, std::int64_t share, std::int64_t shares, Take take) {
#pragma unroll 1
  for (int t = work.tables - 1; t >= 0; --t) {
    const TableUpdate& s = work.table[t];
    const std::int32_t* const busy = s.gradients.busy;
    const std::int64_t count = busy != nullptr ? *busy : 0;
#pragma unroll 1
    for (std::int64_t i = t > 0 ? share : shares - 1 - share; i < count; i += shares) {
      const std::int32_t row = busy[1 + i];
      const int occurrences = Occurrences(s.gradients, row).count;
      if (kOfHot && occurrences <= kHot) break;  // as all that follow
      if (is_hot(occurrences, s.writes.leave[row]) == kOfHot) take(s, row);
    }
  }
}

// The first blocks each take a slice of the hot rows of a share, the next ones a slice of the other rows with many
// occurrences, the others a row per kLanes lanes. kHalfPrecision: whether any of the tables is in half precision.
template <bool kHalfPrecision, int kLanes>
__global__ void __launch_bounds__(kThreads, 6) update_kernel(const __grid_constant__ Updates work) {
  __shared__ uint2 noise[kWarps][kHalfPrecision ? LaneColumns<kWarpLanes>::kOfRow / 4 : 1];
  std::int64_t block = blockIdx.x;
  if (block < work.hot_blocks()) {
    const int slice = static_cast<int>(block / work.hot_shares);
    each_row<true>(work, block % work.hot_shares, work.hot_shares, [&](const TableUpdate& s, std::int64_t u) {
      update_hot_row<kHalfPrecision>(s, u, slice, work.negative_rate);
    });
    return;
  }
  block -= work.hot_blocks();
  if (block < work.many_blocks()) {
    const int slice = static_cast<int>(block / work.shares);
    each_row<false>(work, block % work.shares, work.shares, [&](const TableUpdate& s, std::int64_t u) {
      update_row_together<kHalfPrecision>(s, u, slice, work.slices, work.negative_rate);
    });
    return;
  }
  const int warp = threadIdx.x / kWarpLanes;
  const std::int64_t first = ((block - work.many_blocks()) * kWarps + warp) * (kWarpLanes / kLanes);
  if (first < work.first_row[work.tables])
    update_rows_alone<kHalfPrecision, kLanes>(work, first, reinterpret_cast<std::uint16_t*>(noise[warp]));
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

// Whether rows of a table and of its gradients are as LaneColumns takes them.
bool is_aligned(const TableUpdate& table) {
  const RowMemory& memory = table.memory;
  const auto begins = [](const void* at) { return reinterpret_cast<std::uintptr_t>(at) % sizeof(float4) == 0; };
  bool aligned = (memory.dim % 4 == 0 || !memory.is_half()) && memory.stride % 4 == 0 && begins(memory.host_rows) &&
                 begins(memory.cache) && begins(memory.staging) && begins(table.records);
  for (int e = 0; e < table.gradients.entries; ++e)
    aligned = aligned && begins(table.gradients.entry[e].values) && table.gradients.entry[e].stride % 4 == 0;
  return aligned;
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
    work.aligned[t] = is_aligned(tables[t]);
    widest = std::max(widest, tables[t].memory.dim);
    work.first_row[t + 1] = work.first_row[t] + tables[t].writes.count;
  }
  const std::int64_t rows = work.first_row[work.tables];
  if (rows == 0) return;
  const bool any_half =
      std::any_of(tables.begin(), tables.end(), [](const TableUpdate& each) { return each.memory.is_half(); });
  work.slices = static_cast<int>((widest + kThreads - 1) / kThreads);
  work.shares = std::clamp<std::int64_t>(kManyBlocks / work.slices, 1, rows);
  work.hot_slices = static_cast<int>((widest + kHotColumns - 1) / kHotColumns);
  work.hot_shares = std::clamp<std::int64_t>(kHotBlocks / work.hot_slices, 1, rows);
  const auto launch_for = [&]<int kLanes>() {
    const auto kernel = any_half ? update_kernel<true, kLanes> : update_kernel<false, kLanes>;
    const unsigned blocks = static_cast<unsigned>(work.hot_blocks() + work.many_blocks()) +
                            blocks_of_warps((rows * kLanes + kWarpLanes - 1) / kWarpLanes);
    kernel<<<blocks, kThreads, 0, stream_of(launch)>>>(work);
  };
  // As few lanes for a row as have room for all of its columns: where ranks have some columns rows are short and many.
  if (widest <= LaneColumns<8>::kOfRow)
    launch_for.template operator()<8>();
  else if (widest <= LaneColumns<16>::kOfRow)
    launch_for.template operator()<16>();
  else
    launch_for.template operator()<kWarpLanes>();
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
