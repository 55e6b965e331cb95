#include "rows/cuda/prefetch.h"

#include <string>

#include "base/device/cuda_check.h"
#include "rows/cuda/fetch.cuh"
#include "rows/cuda/row_movement.cuh"

namespace frugal::cuda {
namespace {

// Rows in floats, by the first `blocks` blocks; pieces by the others.
template <RowElement kElement>
__global__ void __launch_bounds__(kMostThreads)
    prefetch_kernel(RowMemory memory, RowReads reads, float* records, Sharing by, unsigned blocks,
                    const __grid_constant__ Fetch fetch) {
  if (blockIdx.x >= blocks) return fetch_pieces(fetch, blockIdx.x - blocks, gridDim.x - blocks);
  move_rows(
      by, reads.count, blocks, 1, static_cast<int>(memory.record_floats() / 4),
      [&](std::int64_t u) {
        const std::int64_t row = reads.rows[u];
        return Wanted{row, reads.source[u] == kFromHost ? u : -1};
      },
      [&](const Wanted& wanted, int, const Word*& from, float*& to) {
        from = reinterpret_cast<const Word*>(memory.host_rows + wanted.row * memory.stride);
        to = records + wanted.place * memory.record_stride();
      },
      [&](float* to, int i, const Word& word) { store_in_floats<kElement>(memory, word, i, to); }, [](const Team&) {});
}

using PrefetchKernel = void (*)(RowMemory, RowReads, float*, Sharing, unsigned, const Fetch);

PrefetchKernel prefetch_kernel_of(RowElement element) {
  return element == RowElement::kFloat32 ? prefetch_kernel<RowElement::kFloat32>
                                         : prefetch_kernel<RowElement::kFloat16>;
}

}  // namespace

void prefetch(const RowMemory& memory, const RowReads& reads, float* records, std::span<const HostPiece> pieces,
              const Launch& launch) {
  const Fetch fetch = fetch_of(pieces);
  const Movement moved = prefetch_movement(reads.count, lanes_of(memory), launch.crossing, 4 * memory.record_floats());
  const unsigned blocks = reads.count == 0 ? 0 : moved.blocks;
  const int threads = moved.threads, bytes = moved.list_bytes();
  const unsigned all = blocks + fetch.blocks_beside(threads);
  if (all == 0) return;
  const Sharing by = moved.by;
  const auto kernel = prefetch_kernel_of(memory.element);
  kernel<<<all, threads, bytes, stream_of(launch)>>>(memory, reads, records, by, blocks, fetch);
  cuda_check(cudaGetLastError(), "launching the prefetch of " + std::to_string(reads.count) + " rows");
}

}  // namespace frugal::cuda
