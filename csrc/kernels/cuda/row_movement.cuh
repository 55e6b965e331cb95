// How the kernels of both directions move rows over the bus, beside the computation or before it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/plan_kernels.h"
#include "kernels/word_copy.h"
#include "memory/half.h"

namespace frugal::cuda {

constexpr int kMostThreads = 512;

// Word i of a record in halves, in floats.
template <RowElement kElement>
__device__ void expand_word(const RowMemory& memory, const Word& word, int i, float* record) {
  constexpr int kHalves = 8;
  if (kHalves * (i + 1) <= memory.dim) {
    Word wide[2];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const std::uint32_t two = bits_of(word.at[k]);
      wide[k / 2].at[k % 2 * 2] = Half<kElement>::expand(static_cast<std::uint16_t>(two));
      wide[k / 2].at[k % 2 * 2 + 1] = Half<kElement>::expand(static_cast<std::uint16_t>(two >> 16));
    }
    Word* const to = reinterpret_cast<Word*>(record) + 2 * i;
    to[0] = wide[0];
    to[1] = wide[1];
    return;
  }
  for (int k = 0; k < 4; ++k) {  // the last halves, the state, padding
    const std::int64_t place = 4 * i + k, state = place - memory.embedding_floats(), column = 2 * place;
    if (state >= 0) {
      if (state < memory.state) record[memory.dim + state] = word.at[k];
      continue;
    }
    const std::uint32_t two = bits_of(word.at[k]);
    record[column] = Half<kElement>::expand(static_cast<std::uint16_t>(two));
    if (column + 1 < memory.dim) record[column + 1] = Half<kElement>::expand(static_cast<std::uint16_t>(two >> 16));
  }
}

// Few threads have to keep the bus busy. So `lanes` of them, a team, look at the plan of several rows at once, and then
// have words of `together` of the wanted ones, or of parts of them, under way.
constexpr int kMostTogether = 4;

struct Sharing {
  int lanes, looked, together;
};

struct Team {
  int lanes, lane, first_lane;
  unsigned mask;

  __device__ explicit Team(int of)
      : lanes(of),
        lane(static_cast<int>(threadIdx.x) % of),
        first_lane(static_cast<int>(threadIdx.x) % kWarpLanes - lane),
        mask((0xffffffffu >> (kWarpLanes - of)) << first_lane) {}
};

// Moves the wanted rows of a team, each in `parts` of `words`. way_of(of, part, from, to): where that part of row number
// `of` of the team's comes from and goes; all lanes ask. store(to, i, word). stored(): behind the parts that were under way
// at once, before the next ones are.
template <typename WayOf, typename Store, typename Stored>
__device__ void move_rows(const Team& team, bool is_wanted, int parts, int together, int words, WayOf way_of, Store store,
                          Stored stored) {
  unsigned left = __ballot_sync(team.mask, is_wanted) >> team.first_lane;
  int part = 0;
  while (left != 0) {
    int count = 0;
    const Word* from[kMostTogether];
    float* to[kMostTogether];
#pragma unroll
    for (int r = 0; r < kMostTogether; ++r) {
      const bool is_one = r < together && left != 0;
      const int of = is_one ? __ffs(static_cast<int>(left)) - 1 : 0;
      count += is_one;
      way_of(of, part, from[r], to[r]);
      if (is_one && ++part == parts) {
        part = 0;
        left &= left - 1;
      }
    }
    for (int begin = team.lane; begin < words; begin += kWordsInFlight * team.lanes) {
      Word moved[kMostTogether][kWordsInFlight];
      const auto each = [&](auto body) {
#pragma unroll
        for (int r = 0; r < kMostTogether; ++r)
#pragma unroll
          for (int k = 0; k < kWordsInFlight; ++k) {
            const int i = begin + k * team.lanes;
            if (r < count && i < words) body(r, i, moved[r][k]);
          }
      };
      each([&](int r, int i, Word& word) { word = from[r][i]; });
      each([&](int r, int i, Word& word) { store(to[r], i, word); });
    }
    stored();
  }
}

// The first row that a team looks at, of its own and of all teams' together; then every `step`-th.
struct Looks {
  std::int64_t first, step;

  __device__ explicit Looks(const Sharing& by) : Looks(by, gridDim.x) {}
  // Of the first `blocks` blocks.
  __device__ Looks(const Sharing& by, std::int64_t blocks) {
    const std::int64_t teams = blockDim.x / by.lanes;  // of a block
    first = (blockIdx.x * teams + threadIdx.x / by.lanes) * by.looked;
    step = blocks * teams * by.looked;
  }
};

// What is done was written to host memory, but it is only ordered before the counter by the fence; the volatile store is
// not kept back by any cache.
__device__ inline void store_counter(std::uint64_t* counter, const std::int64_t* value) {
  __threadfence_system();
  *reinterpret_cast<volatile std::uint64_t*>(counter) = static_cast<std::uint64_t>(*value);
}

// The word that a thread has stored last. Stores wait in front of the bus, and what else a device does waits with them, to
// the end of each kernel; so who stores beside the computation looks from time to time whether its stores have come home.
struct LastWord {
  Word* place = nullptr;
  float value = 0.0f;

  __device__ void store(float* to, int i, const Word& word) {
    place = reinterpret_cast<Word*>(to) + i;
    value = word.at[0];
    *place = word;
  }
  // By a thread that has stored one. Returns once it shows in host memory, which no read reaches before the stores ahead
  // of it; or after a few looks, in case that others write there, too.
  __device__ void await() const {
    constexpr int kLooks = 4;
    const auto* there = reinterpret_cast<const volatile std::uint32_t*>(place);
    for (int look = 0; look < kLooks && *there != bits_of(value); ++look) {
    }
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
  bool awaits;  // whether warps wait for what they have stored
};

// As even as it goes: each team looks as often as the others, at as many rows.
inline Movement movement_of(std::int64_t rows, int lanes, const Blocks& most, int together, bool awaits = false) {
  const unsigned blocks = std::max(1u, blocks_for(rows, lanes, most));
  const std::int64_t teams = static_cast<std::int64_t>(blocks) * (most.threads / lanes);
  const std::int64_t looks = std::max<std::int64_t>(1, pieces(rows, teams * lanes));
  return {blocks, most.threads, {lanes, static_cast<int>(std::max<std::int64_t>(1, pieces(rows, teams * looks))), together},
          awaits};
}

inline Movement arrival_of(std::int64_t rows, int lanes, Crossing crossing) {
  return movement_of(rows, lanes, blocks_by(crossing, kArrivalBlocks, kFewArrivalBlocks), kMostTogether);
}

// parts: of a row, which move one behind the other, `bytes` each. lanes: what suits a part.
inline Movement departure_of(std::int64_t rows, int lanes, Crossing crossing, std::int64_t bytes, int parts = 1) {
  if (crossing != Crossing::kBus)
    return movement_of(rows, lanes, blocks_by(crossing, kBoundDepartureBlocks, kFewDepartureBlocks), kMostTogether);
  if (parts * bytes < kLongRow)
    return movement_of(rows, lanes, kBoundDepartureBlocks, std::min(parts, kMostTogether), true);
  // A warp waits for kBytesAwaited at a time: of whole rows, or each of its teams for as many parts as it may have.
  const auto awaited_by = [bytes](int of) { return std::max<std::int64_t>(1, kBytesAwaited * of / kWarpLanes / bytes); };
  if (parts > 1)
    for (lanes = kWarpLanes; lanes > kLineWords && awaited_by(lanes) > kMostTogether;) lanes /= 2;
  const auto together = std::min<std::int64_t>(awaited_by(lanes), kMostTogether);
  return movement_of(rows, lanes, kBoundDepartureBlocks, static_cast<int>(together), true);
}

}  // namespace frugal::cuda
