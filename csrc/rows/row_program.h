// The update of one row of a step, written once for both processors.
//
// The code below is one warp's work. `Warp` supplies the machine: on a CUDA device 32 threads with one element each
// (cuda/device_warp.cuh), on the CPU one thread with 32 elements in vector registers (cpu/host_warp.h). The order of
// every floating-point operation is fixed here, so both give the same bits, and both give those of table/row_adagrad.h;
// compile without contraction and with IEEE division and square root.
//
// A row's record is its embedding with the optimizer state behind it (table/row_layout.h).
#pragma once

#include <cstdint>

#include "base/random/rounding_noise.h"
#include "engine/plan.h"
#include "table/row_layout.h"

#ifdef __CUDACC__
#define FRUGAL_HOST_DEVICE __host__ __device__
#define FRUGAL_WARP_CODE __device__
#define FRUGAL_UNROLL _Pragma("unroll")
#define FRUGAL_UNROLL_SOME _Pragma("unroll 4")
#else
#define FRUGAL_HOST_DEVICE
#define FRUGAL_WARP_CODE
#define FRUGAL_UNROLL
#define FRUGAL_UNROLL_SOME
#endif

namespace frugal {

inline constexpr int kMaxEntries = 2;      // a step's entries: positives, negatives
inline constexpr int kFewOccurrences = 4;  // of a row; one with more is busy (StepGradients::busy)

// Where a step's records come from and go to, as the executor addresses them. Rows are `stride` floats apart
// everywhere; but a step computes in floats, so its own records of rows in half precision are record_stride() apart,
// and so are gradients that leave it.
struct RowMemory {
  std::int64_t dim;
  std::int64_t stride;         // >= embedding_floats() + state, a multiple of 4; of 32 for whole lines
  float* host_rows = nullptr;  // the table, or in `copy` mode the rows that were packed for this step
  float* cache = nullptr;      // the device's cache, slot after slot
  float* staging = nullptr;    // the rank's staging, which targets of RowDestination::kValue and kGradient point into
  std::int64_t state = 1;      // floats of optimizer state behind the embedding
  // of the embedding; code that only copies may take half precision for float32
  RowElement element = RowElement::kFloat32;

  FRUGAL_HOST_DEVICE bool is_half() const { return element != RowElement::kFloat32; }
  // Where the state begins.
  FRUGAL_HOST_DEVICE std::int64_t embedding_floats() const { return is_half() ? (dim + 1) / 2 : dim; }
  // The copied part of a record: embedding and state, up to whole 16-byte words.
  FRUGAL_HOST_DEVICE std::int64_t record_floats() const { return (embedding_floats() + state + 3) / 4 * 4; }
  FRUGAL_HOST_DEVICE std::int64_t record_stride() const {
    return is_half() ? (dim + state + kLineFloats - 1) / kLineFloats * kLineFloats : stride;
  }
};

// Of one of its rows.
inline RowLayout layout_of(const RowMemory& memory) {
  return {memory.dim, memory.stride, memory.state, memory.element};
}

// By what rows in half precision are rounded where they leave a step (base/random/rounding_noise.h).
struct RowRounding {
  Rounding by = {};
  const std::int64_t* step = nullptr;  // (1,) the number of the step
  const std::int64_t* rows = nullptr;  // ids of the step's rows

  FRUGAL_HOST_DEVICE RoundingNoise of(std::int64_t u) const { return by.of(*step, rows[u]); }
};

// Which rows of a step are read at a time: rows that come from the host (kFromHost) need not wait for the step before,
// as all others do, kFromHostLate among them.
enum class ReadPart : std::uint8_t { kAll, kHost, kCache };

// Reads of a step: StepPlan::rows and source. `rows` index host_rows.
struct RowReads {
  const std::int64_t* rows;
  const std::int32_t* source;
  std::int64_t count;
  ReadPart part = ReadPart::kAll;

  FRUGAL_HOST_DEVICE bool wants(std::int64_t u) const {
    return part == ReadPart::kAll || (source[u] == kFromHost) == (part == ReadPart::kHost);
  }
};

// Writes of a step: StepPlan::leave and target. used: null, or how many of the rows there are; the others only pad.
struct RowWrites {
  const RowDestination* leave;
  const std::int64_t* target;
  std::int64_t count;
  const std::int32_t* used = nullptr;

  FRUGAL_HOST_DEVICE bool pads(std::int64_t u) const { return used && u >= *used; }
};

// Rows that a step evicts from the cache (StepPlan::evicted), which wait in the write-back buffer.
struct RowEvictions {
  const std::int64_t* rows = nullptr;   // by the row that takes the place, -1: none; null: there are none at all
  const std::int64_t* first = nullptr;  // (1,) the slot of the first one

  FRUGAL_HOST_DEVICE bool has(std::int64_t u) const { return rows != nullptr && rows[u] >= 0; }
  FRUGAL_HOST_DEVICE std::int64_t slot(std::int64_t u) const { return *first + u; }
};

// Rows of a step whose records are copied from slots to their host rows: target is the slot of rows that leave so
// (`wanted`: RowDestination::kWriteBackBuffer or kPublishedBeforeSync). With them go the rows that the step evicts.
struct RowWriteBacks {
  const std::int64_t* rows;
  const RowDestination* leave;
  const std::int64_t* target;
  std::int64_t count;
  RowDestination wanted = RowDestination::kWriteBackBuffer;
  RowEvictions evictions = {};

  struct Way {
    std::int64_t row, slot;  // slot < 0: it is not written back
  };
  FRUGAL_HOST_DEVICE Way of(std::int64_t u) const {
    if (leave[u] == wanted) return {rows[u], target[u]};
    if (evictions.has(u)) return {evictions.rows[u], evictions.slot(u)};
    return {0, -1};
  }
  RowWriteBacks first(std::int64_t some) const {
    RowWriteBacks of_them = *this;
    of_them.count = some;
    return of_them;
  }
};

// Records of a step for the ids that asked for them: id i has record inverse[i], or zeros where there is no row of that
// number. records: `stride` floats apart, dim of which are an embedding.
struct RowExpansion {
  const float* records;
  std::int64_t stride;
  std::int64_t dim;
  std::int64_t rows;
  const std::int32_t* inverse;
  std::int64_t count;
};

// The gradients of one entry. Row u of the step has occurrences offset[u] .. offset[u + 1]; occurrence i is row
// order[i] of `values`, or row i where there is no order.
struct EntryGradients {
  const float* values;  // dim floats each, `stride` floats apart
  std::int64_t stride;
  const std::int32_t* offset;      // (U + 1,)
  const std::int32_t* order;       // null: as they lie
  // Mean squares of the rows of `values`, which a device is always given; the CPU computes them if they are null, which
  // they are not where rows have more columns elsewhere. square_parts: ranks that each have those over their own
  // columns, `next_part` floats apart, the first one's at `squares`.
  const float* squares = nullptr;
  int square_parts = 1;
  std::int64_t next_part = 0;

  FRUGAL_HOST_DEVICE std::int64_t place(std::int64_t i) const { return order ? order[i] : i; }
  FRUGAL_HOST_DEVICE const float* occurrence(std::int64_t i) const { return values + place(i) * stride; }
  // The mean square of row `place` of `values`, over all columns: the ranks' are added in their order.
  FRUGAL_HOST_DEVICE float square(std::int64_t place) const {
    float sum = squares[place];
    if (square_parts == 1) return sum;
    FRUGAL_UNROLL_SOME
    for (int part = 1; part < square_parts; ++part) sum += squares[place + part * next_part];
    return sum / static_cast<float>(square_parts);
  }
};

struct StepGradients {
  EntryGradients entry[kMaxEntries];
  int entries;
  // How many rows have more than kFewOccurrences, all entries together, then these rows, the ones with the most first:
  // what a device shares out among blocks. Null where there are no entries, and on the CPU.
  const std::int32_t* busy = nullptr;
};

// How the rows of one table leave their step. records: as the step read them. rounding: of rows in half precision.
struct TableUpdate {
  RowMemory memory;
  RowWrites writes;
  const float* records;
  StepGradients gradients;
  RowRounding rounding = {};
};

FRUGAL_HOST_DEVICE inline const float* source_of(const RowMemory& memory, const RowReads& reads, std::int64_t u) {
  const std::int32_t slot = reads.source[u];
  return slot < 0 ? memory.host_rows + reads.rows[u] * memory.stride : memory.cache + slot * memory.stride;
}

FRUGAL_HOST_DEVICE inline float* target_of(const RowMemory& memory, RowDestination leave, std::int64_t target) {
  switch (leave) {
    case RowDestination::kCache:
    case RowDestination::kWriteBackBuffer:
    case RowDestination::kPublishedBeforeSync:
      return memory.cache + target * memory.stride;
    case RowDestination::kHostRow:
      return memory.host_rows + target * memory.stride;
    default:
      return memory.staging + target;
  }
}

// mean_square() of table/mean_square.h for kCount gradients at a time, so that a device has enough loads under way: the
// 32 partial sums of each are the warp's 32 lanes. `power`: sum_level_power of the row.
template <class Warp, int kCount>
FRUGAL_WARP_CODE void warp_mean_squares(const float* const (&gradient)[kCount], std::int64_t dim, int power,
                                        float (&mean)[kCount]) {
  using Lanes = typename Warp::Lanes;
  constexpr int kWarp = 32, kGroup = 8, kUnroll = 4, kLevels = 4;
  if (dim < kGroup) {
    const int whole = dim >= kUnroll ? kUnroll : 0;
    for (int c = 0; c < kCount; ++c) {
      Lanes partial = Warp::zero();
      Warp::add_squares(partial, gradient[c], whole);
      float sum = Warp::broadcast(partial, 0);
      for (std::int64_t i = whole; i < dim; ++i) sum += gradient[c][i] * gradient[c][i];
      for (int k = 1; k < kUnroll; ++k) sum += Warp::broadcast(partial, k);
      mean[c] = sum / static_cast<float>(dim);
    }
    return;
  }
  const std::int64_t groups = dim / kGroup, blocks = groups / kUnroll, step = std::int64_t{1} << power;
  Lanes level[kLevels][kCount];
  FRUGAL_UNROLL  // levels are registers on a device, so their numbers have to be known
  for (int l = 0; l < kLevels; ++l)
    FRUGAL_UNROLL
    for (int c = 0; c < kCount; ++c) level[l][c] = Warp::zero();
  const auto add_squares = [&](std::int64_t first, int count) {
    FRUGAL_UNROLL
    for (int c = 0; c < kCount; ++c) Warp::add_squares(level[0][c], gradient[c] + first, count);
  };
  std::int64_t block = 0;
  while (block + step <= blocks) {
    FRUGAL_UNROLL_SOME
    for (std::int64_t j = 0; j < step; ++j, ++block) add_squares(block * kWarp, kWarp);
    bool carry = true;
    FRUGAL_UNROLL
    for (int l = 1; l < kLevels; ++l) {
      if (!carry) continue;
      FRUGAL_UNROLL
      for (int c = 0; c < kCount; ++c) {
        Warp::add(level[l][c], level[l - 1][c]);
        level[l - 1][c] = Warp::zero();
      }
      carry = (block & ((step - 1) << (l * power))) == 0;
    }
  }
  FRUGAL_UNROLL_SOME
  for (; block < blocks; ++block) add_squares(block * kWarp, kWarp);
  FRUGAL_UNROLL
  for (int l = 1; l < kLevels; ++l)
    FRUGAL_UNROLL
    for (int c = 0; c < kCount; ++c) Warp::add(level[0][c], level[l][c]);
  for (std::int64_t group = blocks * kUnroll; group < groups; ++group) add_squares(group * kGroup, kGroup);
  for (int unrolled = 1; unrolled < kUnroll; ++unrolled)
    FRUGAL_UNROLL
    for (int c = 0; c < kCount; ++c) Warp::add_from(level[0][c], unrolled * kGroup, kGroup);
  FRUGAL_UNROLL
  for (int c = 0; c < kCount; ++c) {
    float sum = 0.0f;
    for (std::int64_t i = groups * kGroup; i < dim; ++i) sum += gradient[c][i] * gradient[c][i];
    for (int k = 0; k < kGroup; ++k) sum += Warp::broadcast(level[0][c], k);
    mean[c] = sum / static_cast<float>(dim);
  }
}

// The warp's lanes that a row of `dim` floats fills from `column` on.
FRUGAL_HOST_DEVICE inline int active_lanes(std::int64_t dim, std::int64_t column) {
  constexpr int kWarp = 32;
  const std::int64_t left = dim - column;
  return left >= kWarp ? kWarp : left > 0 ? static_cast<int>(left) : 0;
}

template <class Warp>
FRUGAL_WARP_CODE void copy_row(float* to, const float* from, std::int64_t dim) {
  constexpr int kWarp = 32;
  FRUGAL_UNROLL_SOME
  for (std::int64_t column = 0; column < dim; column += kWarp) {
    const int active = active_lanes(dim, column);
    Warp::store(to + column, Warp::load(from + column, active), active);
  }
}

// Row u leaves its step: updated into its target, or its gradients copied there. `record`: the row as the step read it.
// Every element is written once, so a target in mapped host memory is only ever stored to. A device shares the work out
// otherwise (cuda/row_updates.cu), with the same operations for each element, and takes this where it cannot.
template <class Warp>
FRUGAL_WARP_CODE void update_row(const RowMemory& memory, RowDestination leave, std::int64_t target,
                                 const float* record, const StepGradients& gradients, std::int64_t u,
                                 float learning_rate, int power) {
  using Lanes = typename Warp::Lanes;
  constexpr int kWarp = 32, kVectors = Warp::kVectors;
  float* const to = target_of(memory, leave, target);
  const std::int64_t dim = memory.dim;
  if (leave == RowDestination::kGradient) {
    std::int64_t sent = 0;
    FRUGAL_UNROLL  // here and below, so that a device keeps the entries in registers
    for (int e = 0; e < kMaxEntries; ++e) {
      if (e == gradients.entries) break;
      const EntryGradients& entry = gradients.entry[e];
      for (std::int64_t i = entry.offset[u]; i < entry.offset[u + 1]; ++i, ++sent)
        copy_row<Warp>(to + sent * memory.record_stride(), entry.occurrence(i), dim);
    }
    return;
  }
  float state = record[dim];
  typename Warp::Divisor deviation[kMaxEntries];
  FRUGAL_UNROLL
  for (int e = 0; e < kMaxEntries; ++e) {
    if (e == gradients.entries) break;
    const EntryGradients& entry = gradients.entry[e];
    for (std::int64_t i = entry.offset[u]; i < entry.offset[u + 1]; ++i) {
      if (entry.squares) {
        state += entry.square(entry.place(i));
        continue;
      }
      const float* const gradient[1] = {entry.occurrence(i)};
      float mean[1];
      warp_mean_squares<Warp, 1>(gradient, dim, power, mean);
      state += mean[0];
    }
    deviation[e] = Warp::divisor(Warp::square_root(state) + 1e-10f);
  }
  for (std::int64_t first = 0; first < dim; first += kVectors * kWarp) {
    Lanes values[kVectors];
    FRUGAL_UNROLL
    for (int v = 0; v < kVectors; ++v)
      values[v] = Warp::load(record + first + v * kWarp, active_lanes(dim, first + v * kWarp));
    FRUGAL_UNROLL
    for (int e = 0; e < kMaxEntries; ++e) {
      if (e == gradients.entries) break;
      const EntryGradients& entry = gradients.entry[e];
      for (std::int64_t i = entry.offset[u]; i < entry.offset[u + 1]; ++i) {
        Lanes step[kVectors];
        FRUGAL_UNROLL
        for (int v = 0; v < kVectors; ++v)
          step[v] = Warp::load(entry.occurrence(i) + first + v * kWarp, active_lanes(dim, first + v * kWarp));
        Warp::descend(values, step, -learning_rate, deviation[e]);
      }
    }
    FRUGAL_UNROLL
    for (int v = 0; v < kVectors; ++v)
      Warp::store(to + first + v * kWarp, values[v], active_lanes(dim, first + v * kWarp));
  }
  Warp::store_one(to + dim, state);
}

}  // namespace frugal
