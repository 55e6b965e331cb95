#include "kernels/cuda/arrival.h"

#include <string>

#include "device/cuda_check.h"
#include "kernels/cuda/fetch.cuh"
#include "kernels/cuda/row_movement.cuh"

namespace frugal::cuda {
namespace {

// Rows in floats, by the first `blocks` blocks; pieces by the others.
template <RowElement kElement>
__global__ void __launch_bounds__(kMostThreads)
    arrive_kernel(RowMemory memory, RowReads reads, float* records, Sharing by, unsigned blocks,
                  const __grid_constant__ Fetch fetch) {
  if (blockIdx.x >= blocks) return fetch_pieces(fetch, blockIdx.x - blocks, gridDim.x - blocks);
  const Team team(by.lanes);
  const Looks looks(by, blocks);
  for (std::int64_t first = looks.first; first < reads.count; first += looks.step) {
    const std::int64_t u = first + team.lane;
    const bool is_there = team.lane < by.looked && u < reads.count;
    // Both at once: a plan in host memory is far away.
    const std::int32_t source = is_there ? reads.source[u] : 0;
    const std::int64_t row = is_there ? reads.rows[u] : 0;
    move_rows(
        team, is_there && source == kFromHost, 1, by.together, static_cast<int>(memory.record_floats() / 4),
        [&](int of, int, const Word*& from, float*& to) {
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

using ArriveKernel = void (*)(RowMemory, RowReads, float*, Sharing, unsigned, const Fetch);

ArriveKernel arrive_of(RowElement element) {
  return element == RowElement::kFloat32   ? arrive_kernel<RowElement::kFloat32>
         : element == RowElement::kFloat16 ? arrive_kernel<RowElement::kFloat16>
                                           : arrive_kernel<RowElement::kBfloat16>;
}

}  // namespace

void arrive(const RowMemory& memory, const RowReads& reads, float* records, std::span<const HostPiece> pieces,
            const Launch& launch) {
  const Fetch fetch = fetch_of(pieces);
  const Movement moved = arrival_of(reads.count, lanes_of(memory), launch.crossing);
  const unsigned blocks = reads.count == 0 ? 0 : moved.blocks;
  const int threads = moved.threads;
  const unsigned all = blocks + fetch.blocks_beside(threads);
  if (all == 0) return;
  const Sharing by = moved.by;
  const auto kernel = arrive_of(memory.element);
  kernel<<<all, threads, 0, stream_of(launch)>>>(memory, reads, records, by, blocks, fetch);
  cuda_check(cudaGetLastError(), "launching the arrival of " + std::to_string(reads.count) + " rows");
}

}  // namespace frugal::cuda
