#include <algorithm>

#include "device/cuda_check.h"
#include "kernels/cuda/last_block.cuh"
#include "kernels/cuda/plan_kernels.h"
#include "kernels/word_copy.h"
#include "memory/half.h"

namespace frugal::cuda {
namespace {

constexpr int kThreads = 256, kMostThreads = 512;

__device__ void copy_record(float* to, const float* from, const RowMemory& memory, int lane, int lanes) {
  copy_words(reinterpret_cast<Word*>(to), reinterpret_cast<const Word*>(from),
             static_cast<int>(memory.record_floats() / 4), lane, lanes);
}

// `lanes` threads per row, rows in turn over the whole grid.
__global__ void __launch_bounds__(kMostThreads)
    gather_kernel(RowMemory memory, RowReads reads, float* records, int lanes) {
  const int lane = threadIdx.x % lanes;
  const std::int64_t rows_of_block = blockDim.x / lanes;
  for (std::int64_t u = blockIdx.x * rows_of_block + threadIdx.x / lanes; u < reads.count;
       u += gridDim.x * rows_of_block)
    if (reads.wants(u)) copy_record(records + u * memory.stride, source_of(memory, reads, u), memory, lane, lanes);
}

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

// As gather_kernel, of rows in halves.
template <RowElement kElement>
__global__ void __launch_bounds__(kMostThreads)
    expand_kernel(RowMemory memory, RowReads reads, float* records, int lanes) {
  const int lane = threadIdx.x % lanes, words = static_cast<int>(memory.record_floats() / 4);
  const std::int64_t rows_of_block = blockDim.x / lanes;
  for (std::int64_t u = blockIdx.x * rows_of_block + threadIdx.x / lanes; u < reads.count;
       u += gridDim.x * rows_of_block) {
    if (!reads.wants(u)) continue;
    const Word* const from = reinterpret_cast<const Word*>(source_of(memory, reads, u));
    float* const record = records + u * memory.record_stride();
    for_words(from, words, lane, lanes,
              [&](int i, const Word& word) { expand_word<kElement>(memory, word, i, record); });
  }
}

// Few threads have to keep the bus busy. So `lanes` of them, a team, look at the plan of several rows at once, and then
// have words of `together` of the wanted ones under way.
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

// way_of(of): from where to where row number `of` of the team's goes, a pair of a source and a target; all lanes ask.
// store(target, i, word). stored(): behind the rows that were under way at once, before the next ones are.
template <typename WayOf, typename Store, typename Stored>
__device__ void move_rows(const Team& team, bool is_wanted, int together, int words, WayOf way_of, Store store,
                          Stored stored) {
  unsigned left = __ballot_sync(team.mask, is_wanted) >> team.first_lane;
  while (left != 0) {
    int count = 0;
    const Word* from[kMostTogether];
    float* to[kMostTogether];
#pragma unroll
    for (int r = 0; r < kMostTogether; ++r) {
      const bool is_one = r < together && left != 0;
      const int of = is_one ? __ffs(static_cast<int>(left)) - 1 : 0;
      count += is_one;
      if (is_one) left &= left - 1;
      way_of(of, from[r], to[r]);
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

  __device__ explicit Looks(const Sharing& by) {
    const std::int64_t teams = blockDim.x / by.lanes;  // of a block
    first = (blockIdx.x * teams + threadIdx.x / by.lanes) * by.looked;
    step = gridDim.x * teams * by.looked;
  }
};

// The rows of a step that come from the host, in floats.
template <RowElement kElement>
__global__ void __launch_bounds__(kMostThreads)
    arrive_kernel(RowMemory memory, RowReads reads, float* records, Sharing by) {
  const Team team(by.lanes);
  const Looks looks(by);
  for (std::int64_t first = looks.first; first < reads.count; first += looks.step) {
    const std::int64_t u = first + team.lane;
    const bool is_wanted = team.lane < by.looked && u < reads.count && reads.source[u] == kFromHost;
    const std::int64_t row = is_wanted ? reads.rows[u] : 0;
    move_rows(
        team, is_wanted, by.together, static_cast<int>(memory.record_floats() / 4),
        [&](int of, const Word*& from, float*& to) {
          const std::int64_t place = __shfl_sync(team.mask, row, of, team.lanes) * memory.stride;
          from = reinterpret_cast<const Word*>(memory.host_rows + place);
          to = records + (first + of) * memory.record_stride();
        },
        [&](float* to, int i, const Word& word) {
          if constexpr (kElement == RowElement::kFloat32)
            reinterpret_cast<Word*>(to)[i] = word;
          else
            expand_word<kElement>(memory, word, i, to);
        },
        [] {});
  }
}

// What is done was written to host memory, but it is only ordered before the counter by the fence; the volatile store is
// not kept back by any cache.
__device__ void store_counter(std::uint64_t* counter, const std::int64_t* value) {
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

template <bool kAwaits>
__global__ void __launch_bounds__(kMostThreads)
    return_kernel(RowMemory memory, RowReturns returns, Publication publication, Sharing by) {
  const Team team(by.lanes);
  const Looks looks(by);
  for (std::int64_t first = looks.first; first < returns.count; first += looks.step) {
    const std::int64_t u = first + team.lane;
    const bool is_wanted = team.lane < by.looked && u < returns.count && returns.leave[u] == returns.wanted;
    const std::int64_t slot = is_wanted ? returns.target[u] : 0, row = is_wanted ? returns.rows[u] : 0;
    LastWord last;
    move_rows(
        team, is_wanted, by.together, static_cast<int>(memory.record_floats() / 4),
        [&](int of, const Word*& from, float*& to) {
          const std::int64_t place = __shfl_sync(team.mask, slot, of, team.lanes) * memory.stride;
          from = reinterpret_cast<const Word*>(memory.cache + place);
          to = memory.host_rows + __shfl_sync(team.mask, row, of, team.lanes) * memory.stride;
        },
        [&](float* to, int i, const Word& word) { last.store(to, i, word); },
        [&] {
          if (!kAwaits) return;
          if (team.lane == 0) last.await();
          __syncwarp(team.mask);
        });
  }
  if (publication.counter != nullptr && is_last_block(publication.turn) && threadIdx.x == 0)
    store_counter(publication.counter, publication.value);
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

// `lanes` threads per id. kElement: what they copy at a time, of which dim are an embedding.
template <typename Element>
__global__ void __launch_bounds__(kThreads)
    spread_kernel(RowSpread spread, const Element* records, std::int64_t stride, int dim, Element* out, int lanes) {
  const int lane = threadIdx.x % lanes;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * (kThreads / lanes);
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * (kThreads / lanes) + threadIdx.x / lanes;
       i < spread.count; i += step) {
    const std::int32_t u = spread.inverse[i];
    for (int k = lane; k < dim; k += lanes) out[i * dim + k] = u < spread.rows ? records[u * stride + k] : Element{};
  }
}

// Kernels before this one on the stream are done.
__global__ void publish_kernel(std::uint64_t* counter, const std::int64_t* value) { store_counter(counter, value); }

using GatherKernel = void (*)(RowMemory, RowReads, float*, int);
using ArriveKernel = void (*)(RowMemory, RowReads, float*, Sharing);

GatherKernel gather_of(RowElement element) {
  return element == RowElement::kFloat32   ? gather_kernel
         : element == RowElement::kFloat16 ? expand_kernel<RowElement::kFloat16>
                                           : expand_kernel<RowElement::kBfloat16>;
}

ArriveKernel arrival_of(RowElement element) {
  return element == RowElement::kFloat32   ? arrive_kernel<RowElement::kFloat32>
         : element == RowElement::kFloat16 ? arrive_kernel<RowElement::kFloat16>
                                           : arrive_kernel<RowElement::kBfloat16>;
}

cudaStream_t stream_of(const Launch& launch) { return reinterpret_cast<cudaStream_t>(launch.stream); }

int lanes_for(const RowMemory& memory) { return lanes_for_words(memory.record_floats() / 4); }

std::int64_t pieces(std::int64_t count, std::int64_t size) { return (count + size - 1) / size; }

unsigned blocks_for(std::int64_t rows, int lanes, const Blocks& most) {
  return static_cast<unsigned>(std::min<std::int64_t>(pieces(rows, most.threads / lanes), most.count));
}

const Blocks& blocks_by(Crossing crossing, const Blocks& usual, const Blocks& few) {
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

// As even as it goes: each team looks as often as the others, at as many rows.
Sharing share_rows(std::int64_t rows, int lanes, unsigned blocks, const Blocks& of, int together) {
  const std::int64_t teams = static_cast<std::int64_t>(blocks) * (of.threads / lanes);
  const std::int64_t looks = std::max<std::int64_t>(1, pieces(rows, teams * lanes));
  return {lanes, static_cast<int>(std::max<std::int64_t>(1, pieces(rows, teams * looks))), together};
}

}  // namespace

void gather(const RowMemory& memory, const RowReads& reads, float* records, const Launch& launch) {
  if (reads.count == 0) return;
  const int lanes = lanes_for(memory);
  if (reads.part == ReadPart::kHost) {
    const Blocks most = blocks_by(launch.crossing, kArrivalBlocks, kFewArrivalBlocks);
    const unsigned blocks = blocks_for(reads.count, lanes, most);
    const int threads = most.threads;
    const Sharing by = share_rows(reads.count, lanes, blocks, most, kMostTogether);
    const auto kernel = arrival_of(memory.element);
    kernel<<<blocks, threads, 0, stream_of(launch)>>>(memory, reads, records, by);
  } else {
    const Blocks most = blocks_by(launch.crossing, kBusBlocks, kBusBlocks);
    const int threads = most.threads;
    const auto kernel = gather_of(memory.element);
    kernel<<<blocks_for(reads.count, lanes, most), threads, 0, stream_of(launch)>>>(memory, reads, records, lanes);
  }
  cuda_check(cudaGetLastError(), "launching the gather of " + std::to_string(reads.count) + " rows");
}

void return_rows(const RowMemory& memory, const RowReturns& returns, const Launch& launch,
                 const Publication& publication) {
  if (returns.count == 0 && publication.counter == nullptr) return;
  const int lanes = lanes_for(memory);
  const std::int64_t bytes = 4 * memory.record_floats();
  const bool awaits = launch.crossing == Crossing::kBus && bytes >= kLongRow;
  const Blocks most =
      blocks_by(launch.crossing, awaits ? kBoundDepartureBlocks : kDepartureBlocks, kFewDepartureBlocks);
  const unsigned blocks = std::max(1u, blocks_for(returns.count, lanes, most));
  const auto together =
      awaits ? std::clamp(kBytesAwaited / bytes, std::int64_t{1}, std::int64_t{kMostTogether}) : kMostTogether;
  const Sharing by = share_rows(returns.count, lanes, blocks, most, static_cast<int>(together));
  const int threads = most.threads;
  const auto kernel = awaits ? return_kernel<true> : return_kernel<false>;
  kernel<<<blocks, threads, 0, stream_of(launch)>>>(memory, returns, publication, by);
  cuda_check(cudaGetLastError(), "launching the return of " + std::to_string(returns.count) + " rows");
}

void write_back(const RowMemory& memory, const WriteBack* write_backs, std::int64_t count, const Launch& launch) {
  if (count == 0) return;
  const int lanes = lanes_for(memory);
  write_back_kernel<<<blocks_for(count, lanes, kBusBlocks), kThreads, 0, stream_of(launch)>>>(memory, write_backs, count,
                                                                                        lanes);
  cuda_check(cudaGetLastError(), "launching the write-back of " + std::to_string(count) + " rows");
}

void spread(const RowSpread& spread, float* out, const Launch& launch) {
  if (spread.count == 0) return;
  const bool words = spread.dim % 4 == 0 && spread.stride % 4 == 0;
  const auto elements = static_cast<int>(words ? spread.dim / 4 : spread.dim);
  const int lanes = lanes_for_words(elements);
  const unsigned blocks = blocks_for(spread.count, lanes, kAllBlocks);
  if (words)
    spread_kernel<<<blocks, kThreads, 0, stream_of(launch)>>>(spread, reinterpret_cast<const Word*>(spread.records),
                                                              spread.stride / 4, elements,
                                                              reinterpret_cast<Word*>(out), lanes);
  else
    spread_kernel<<<blocks, kThreads, 0, stream_of(launch)>>>(spread, spread.records, spread.stride, elements, out,
                                                              lanes);
  cuda_check(cudaGetLastError(), "launching the rows of " + std::to_string(spread.count) + " ids");
}

void publish(std::uint64_t* counter, const std::int64_t* value, const Launch& launch) {
  publish_kernel<<<1, 1, 0, stream_of(launch)>>>(counter, value);
  cuda_check(cudaGetLastError(), "launching the publication of a step");
}

}  // namespace frugal::cuda
