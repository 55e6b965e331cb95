// How the kernels of both directions move rows over the bus, during the computation or before it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/half.h"
#include "rows/cuda/plan_kernels.h"
#include "rows/word_copy.h"

namespace frugal::cuda {

constexpr int kMostThreads = 512;

// Word i of a record in half precision, in floats.
__device__ inline void expand_word(const RowMemory& memory, const Word& word, int i, float* record) {
  constexpr int kWordHalves = 8;
  if (kWordHalves * (i + 1) <= memory.dim) {
    Word wide[2];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const std::uint32_t two = bits_of(word.at[k]);
      wide[k / 2].at[k % 2 * 2] = Half::expand(static_cast<std::uint16_t>(two));
      wide[k / 2].at[k % 2 * 2 + 1] = Half::expand(static_cast<std::uint16_t>(two >> 16));
    }
    Word* const to = reinterpret_cast<Word*>(record) + 2 * i;
    to[0] = wide[0];
    to[1] = wide[1];
    return;
  }
  for (int k = 0; k < 4; ++k) {  // the last numbers in half precision, the state, padding
    const std::int64_t place = 4 * i + k, state = place - memory.embedding_floats(), column = 2 * place;
    if (state >= 0) {
      if (state < memory.state) record[memory.dim + state] = word.at[k];
      continue;
    }
    const std::uint32_t two = bits_of(word.at[k]);
    record[column] = Half::expand(static_cast<std::uint16_t>(two));
    if (column + 1 < memory.dim) record[column + 1] = Half::expand(static_cast<std::uint16_t>(two >> 16));
  }
}

// Stores word i of a row, as it lies in host memory, into its record in floats.
template <RowElement kElement>
__device__ void store_in_floats(const RowMemory& memory, const Word& word, int i, float* record) {
  if constexpr (kElement == RowElement::kFloat32)
    reinterpret_cast<Word*>(record)[i] = word;
  else
    expand_word(memory, word, i, record);
}

// Few threads have to keep the bus busy, and all of them to the end. So a block looks at several rows of the plan with
// each thread, lists the rows that it wants, and shares them out to its teams of `lanes` threads, each of which has
// words of `together` rows, or parts of rows, under way.
constexpr int kMostTogether = 4, kMostLooks = 4;

struct Sharing {
  int lanes, looks, together;
};

// Where a row lies in the host's table, and where it lies or goes on the device; negative: it is not wanted.
struct Wanted {
  std::int64_t row, place;
};

struct Team {
  int lane, number, count;  // thread of the team, team of the block, teams of the block
  unsigned mask;

  __device__ explicit Team(int lanes)
      : lane(static_cast<int>(threadIdx.x) % lanes),
        number(static_cast<int>(threadIdx.x) / lanes),
        count(static_cast<int>(blockDim.x) / lanes),
        mask((0xffffffffu >> (kWarpLanes - lanes)) << (static_cast<int>(threadIdx.x) % kWarpLanes - lane)) {}
};

// The rows that a block lists together, in `list`. Returns how many. look(u): row u of the plan.
template <typename Look>
__device__ int list_rows(Wanted* list, std::int64_t first, int looks, std::int64_t count, unsigned blocks, Look look) {
  // Blocks take a few neighbours in turn, 32 bytes of where they are read from, so that all have as many of the rows
  // that only pad, which come last.
  constexpr int kNeighbours = 8;
  __shared__ int listed;
  __syncthreads();  // the list before has been worked off
  if (threadIdx.x == 0) listed = 0;
  Wanted wanted[kMostLooks];  // all under way at once: a plan in host memory is far away
#pragma unroll
  for (int k = 0; k < kMostLooks; ++k) {
    const std::int64_t n = first + k * static_cast<std::int64_t>(blockDim.x) + threadIdx.x;
    const std::int64_t u = (n / kNeighbours * blocks + blockIdx.x) * kNeighbours + n % kNeighbours;
    wanted[k] = k < looks && u < count ? look(u) : Wanted{0, -1};
  }
  __syncthreads();
  const unsigned lane = threadIdx.x % kWarpLanes;
#pragma unroll
  for (int k = 0; k < kMostLooks; ++k) {
    const bool is_wanted = wanted[k].place >= 0;
    const unsigned votes = __ballot_sync(~0u, is_wanted);
    const int before = lane == 0 ? atomicAdd(&listed, __popc(votes)) : 0;
    const int at = __shfl_sync(~0u, before, 0) + __popc(votes & ((1u << lane) - 1));
    if (is_wanted) list[at] = wanted[k];
  }
  __syncthreads();
  return listed;
}

// Moves the wanted ones of `count` rows of a plan, each in `parts` of `words`; by the first `blocks` blocks, with
// list_bytes of shared memory each. way_of(row, part, from, to): where that part of a wanted row comes from and goes.
// store(to, i, word). stored(team): behind the parts that were under way at once, before the next ones are.
template <typename Look, typename WayOf, typename Store, typename Stored>
__device__ void move_rows(const Sharing& by, std::int64_t count, unsigned blocks, int parts, int words, Look look,
                          WayOf way_of, Store store, Stored stored) {
  extern __shared__ __align__(16) float shared[];
  auto* const list = reinterpret_cast<Wanted*>(shared);
  const Team team(by.lanes);
  const std::int64_t together = by.looks * static_cast<std::int64_t>(blockDim.x);
  for (std::int64_t first = 0; first * blocks < count; first += together) {
    const int listed = list_rows(list, first, by.looks, count, blocks, look);
    for (int next = team.number, part = 0; next < listed;) {
      int moving = 0;
      const Word* from[kMostTogether];
      float* to[kMostTogether];
#pragma unroll
      for (int r = 0; r < kMostTogether; ++r) {
        if (r >= by.together || next >= listed) break;
        ++moving;
        way_of(list[next], part, from[r], to[r]);
        if (++part == parts) part = 0, next += team.count;
      }
      for (int begin = team.lane; begin < words; begin += kWordsInFlight * by.lanes) {
        Word moved[kMostTogether][kWordsInFlight];
        const auto each = [&](auto body) {
#pragma unroll
          for (int r = 0; r < kMostTogether; ++r)
#pragma unroll
            for (int k = 0; k < kWordsInFlight; ++k) {
              const int i = begin + k * by.lanes;
              if (r < moving && i < words) body(r, i, moved[r][k]);
            }
        };
        each([&](int r, int i, Word& word) { word = from[r][i]; });
        each([&](int r, int i, Word& word) { store(to[r], i, word); });
      }
      stored(team);
    }
  }
}

// The work so far was written to host memory, but it is only ordered before the counter by the fence; the volatile
// store is not kept back by any cache.
__device__ inline void store_counter(std::uint64_t* counter, const std::int64_t* value) {
  __threadfence_system();
  *reinterpret_cast<volatile std::uint64_t*>(counter) = static_cast<std::uint64_t>(*value);
}

// The word that a thread has stored last. Stores wait in front of the bus, and what else a device does waits with them,
// to the end of each kernel; so a kernel that stores during the computation looks from time to time whether its stores
// have reached the host.
struct LastWord {
  Word* place = nullptr;
  float value = 0.0f;

  __device__ void store(float* to, int i, const Word& word) {
    place = reinterpret_cast<Word*>(to) + i;
    value = word.at[0];
    *place = word;
  }
  // By a thread that has stored one. Returns once it shows in host memory, which no read reaches before the stores
  // ahead of it; or after a few looks, in case that others write there, too.
  __device__ void await() const {
    constexpr int kLooks = 4;
    const auto* there = reinterpret_cast<const volatile std::uint32_t*>(place);
    for (int look = 0; look < kLooks && *there != bits_of(value); ++look) {
    }
  }
  // By all threads of a team, of which the first one looks.
  __device__ void await(const Team& team) const {
    if (team.lane == 0) await();
    __syncwarp(team.mask);
  }
};

inline int lanes_of(const RowMemory& memory) { return lanes_for_words(memory.record_floats() / 4); }

inline std::int64_t pieces(std::int64_t count, std::int64_t size) { return (count + size - 1) / size; }

inline unsigned blocks_for(std::int64_t rows, int lanes, const Blocks& most) {
  return static_cast<unsigned>(std::min<std::int64_t>(pieces(rows, most.threads / lanes), most.count));
}

inline const Blocks& blocks_by(Crossing crossing, const Blocks& usual, const Blocks& few) {
  switch (crossing) {
    case Crossing::kBus:
      return usual;
    case Crossing::kBusToSmallTable:
      return few;
    case Crossing::kBusAwaited:
      return kAwaitedBlocks;
    default:
      return kAllBlocks;
  }
}

inline cudaStream_t stream_of(const Launch& launch) { return reinterpret_cast<cudaStream_t>(launch.stream); }

// The launch of a kernel that moves rows.
struct Movement {
  unsigned blocks;
  int threads;
  Sharing by;
  bool awaits;  // whether teams wait for what they have stored

  int list_bytes() const { return by.looks * threads * static_cast<int>(sizeof(Wanted)); }
};

inline Movement movement_of(std::int64_t rows, int lanes, const Blocks& most, int together, bool awaits = false) {
  const unsigned blocks = std::max(1u, blocks_for(rows, lanes, most));
  const std::int64_t looks = pieces(rows, static_cast<std::int64_t>(blocks) * most.threads);
  return {blocks,
          most.threads,
          {lanes, static_cast<int>(std::clamp<std::int64_t>(looks, 1, kMostLooks)), together},
          awaits};
}

// bytes: of a row.
inline Movement prefetch_movement(std::int64_t rows, int lanes, Crossing crossing, std::int64_t bytes) {
  const Blocks& few = bytes < kLongRow ? kShortPrefetchBlocks : kPrefetchBlocks;
  const Blocks& usual = rows < kManyRows ? few : kManyPrefetchBlocks;
  return movement_of(rows, lanes, blocks_by(crossing, usual, kFewPrefetchBlocks), kMostTogether);
}

// parts: of a row, which move one behind the other, `bytes` each. lanes: what suits a part.
inline Movement write_back_movement(std::int64_t rows, int lanes, Crossing crossing, std::int64_t bytes,
                                    int parts = 1) {
  if (crossing != Crossing::kBus)
    return movement_of(rows, lanes, blocks_by(crossing, kBoundWriteBackBlocks, kFewWriteBackBlocks), kMostTogether);
  if (rows >= kManyRows) return movement_of(rows, lanes, kManyWriteBackBlocks, kMostTogether, true);
  if (parts * bytes < kLongRow)
    return movement_of(rows, lanes, kShortWriteBackBlocks, std::min(parts, kMostTogether), true);
  // A warp waits for kBytesAwaited at a time: of whole rows, or each of its teams for as many parts as it may have.
  const auto awaited_by = [bytes](int of) {
    return std::max<std::int64_t>(1, kBytesAwaited * of / kWarpLanes / bytes);
  };
  if (parts > 1)
    for (lanes = kWarpLanes; lanes > kLineWords && awaited_by(lanes) > kMostTogether;) lanes /= 2;
  const auto together = std::min<std::int64_t>(awaited_by(lanes), kMostTogether);
  return movement_of(rows, lanes, kBoundWriteBackBlocks, static_cast<int>(together), true);
}

}  // namespace frugal::cuda
