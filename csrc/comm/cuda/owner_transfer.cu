#include "comm/cuda/owner_transfer.h"

#include "base/device/cuda_check.h"
#include "base/device/last_block.cuh"
#include "comm/cuda/barrier.cuh"
#include "rows/cuda/fetch.cuh"
#include "rows/cuda/row_movement.cuh"

namespace frugal::cuda {
namespace {

// The rows of a step that this rank owns.
template <RowElement kElement>
__device__ void bring(const OwnerTransferRows& rows, const RowReads& reads, const OwnerTransferRecords& records,
                      const Sharing& by, unsigned blocks) {
  const RowMemory& part = rows.part;
  move_rows(
      by, reads.count, blocks, rows.ranks(), static_cast<int>(part.record_floats() / 4),
      [&](std::int64_t u) {
        const std::int64_t row = reads.rows[u];
        return Wanted{row, reads.source[u] == kFromHost && rows.owns(row) ? u : -1};
      },
      [&](const Wanted& wanted, int rank, const Word*& from, float*& to) {
        from = reinterpret_cast<const Word*>(rows.host_part(wanted.row, rank));
        to = records.of[rank] + wanted.place * part.record_stride();
      },
      [&](float* to, int i, const Word& word) { store_in_floats<kElement>(part, word, i, to); }, [](const Team&) {});
}

// Rows by the first `blocks` blocks; pieces by the others, `number` among them.
template <RowElement kElement>
__global__ void __launch_bounds__(kMostThreads)
    owner_prefetch_kernel(const __grid_constant__ OwnerTransferRows rows, RowReads reads,
                          const __grid_constant__ OwnerTransferRecords records, const std::int64_t* number,
                          unsigned* turn, Sharing by, unsigned blocks, const __grid_constant__ Fetch fetch) {
  if (blockIdx.x < blocks)
    bring<kElement>(rows, reads, records, by, blocks);
  else
    fetch_pieces(fetch, blockIdx.x - blocks, gridDim.x - blocks);
  if (!is_last_block(turn)) return;
  const auto reached = static_cast<std::uint64_t>(*static_cast<const volatile std::int64_t*>(number));
  tell(rows.prefetched, reached);
  hear(rows.prefetched, reached);  // if somebody has failed, nobody uses what follows
}

template <bool kAwaits>
__global__ void __launch_bounds__(kMostThreads)
    owner_write_back_kernel(const __grid_constant__ OwnerTransferRows rows, RowWriteBacks write_backs,
                            Publication publication, Sharing by) {
  const auto reached = static_cast<std::uint64_t>(*publication.value);
  if (blockIdx.x == 0) tell(rows.computed, reached);  // an earlier kernel has computed it
  if (hear(rows.computed, reached)) write_backs.count = 0;  // somebody has failed
  LastWord last;
  move_rows(
      by, write_backs.count, gridDim.x, rows.ranks(), static_cast<int>(rows.part.record_floats() / 4),
      [&](std::int64_t u) {
        if (write_backs.leave[u] != write_backs.wanted) return Wanted{0, -1};
        const std::int64_t row = write_backs.rows[u];
        return Wanted{row, rows.owns(row) ? write_backs.target[u] : -1};
      },
      [&](const Wanted& wanted, int rank, const Word*& from, float*& to) {
        from = reinterpret_cast<const Word*>(rows.slot(wanted.place, rank));
        to = rows.host_part(wanted.row, rank);
      },
      [&](float* to, int i, const Word& word) { last.store(to, i, word); },
      [&](const Team& team) {
        if (kAwaits) last.await(team);
      });
  if (is_last_block(publication.turn) && threadIdx.x == 0) store_counter(publication.counter, publication.value);
}

__global__ void __launch_bounds__(kMostThreads)
    owner_write_back_evicted_kernel(const __grid_constant__ OwnerTransferRows rows, const WriteBack* write_backs,
                                    std::int64_t count, std::uint64_t number, Sharing by) {
  if (hear(rows.computed, number)) count = 0;
  move_rows(
      by, count, gridDim.x, rows.ranks(), static_cast<int>(rows.part.record_floats() / 4),
      [&](std::int64_t i) {
        const WriteBack& each = write_backs[i];
        return Wanted{each.row, rows.owns(each.row) ? each.slot : -1};
      },
      [&](const Wanted& wanted, int rank, const Word*& from, float*& to) {
        from = reinterpret_cast<const Word*>(rows.slot(wanted.place, rank));
        to = rows.host_part(wanted.row, rank);
      },
      [&](float* to, int i, const Word& word) { reinterpret_cast<Word*>(to)[i] = word; }, [](const Team&) {});
}

using PrefetchKernel = void (*)(OwnerTransferRows, RowReads, OwnerTransferRecords, const std::int64_t*, unsigned*,
                                Sharing, unsigned, const Fetch);

PrefetchKernel prefetch_kernel_of(RowElement element) {
  return element == RowElement::kFloat32 ? owner_prefetch_kernel<RowElement::kFloat32>
                                         : owner_prefetch_kernel<RowElement::kFloat16>;
}

std::int64_t bytes_of(const OwnerTransferRows& rows) { return 4 * rows.part.record_floats(); }

int lanes_for(const OwnerTransferRows& rows) { return lanes_for_words(rows.part.record_floats() / 4); }

}  // namespace

void prefetch(const OwnerTransferRows& rows, const RowReads& reads, const OwnerTransferRecords& records,
              const std::int64_t* number, unsigned* turn, std::span<const HostPiece> pieces, const Launch& launch) {
  const Movement moved =
      prefetch_movement(reads.count, lanes_for(rows), launch.crossing, rows.ranks() * bytes_of(rows));
  const Fetch fetch = fetch_of(pieces);
  const Sharing by = moved.by;
  const int threads = moved.threads, bytes = moved.list_bytes();
  const unsigned blocks = moved.blocks, all = blocks + fetch.blocks_beside(threads);
  const auto kernel = prefetch_kernel_of(rows.part.element);
  kernel<<<all, threads, bytes, stream_of(launch)>>>(rows, reads, records, number, turn, by, blocks, fetch);
  cuda_check(cudaGetLastError(), "launching the prefetch of " + std::to_string(reads.count) + " rows");
}

void write_back(const OwnerTransferRows& rows, const RowWriteBacks& write_backs, const Publication& publication,
                const Launch& launch) {
  const Movement moved =
      write_back_movement(write_backs.count, lanes_for(rows), launch.crossing, bytes_of(rows), rows.ranks());
  const Sharing by = moved.by;
  const int threads = moved.threads, bytes = moved.list_bytes();
  const auto kernel = moved.awaits ? owner_write_back_kernel<true> : owner_write_back_kernel<false>;
  kernel<<<moved.blocks, threads, bytes, stream_of(launch)>>>(rows, write_backs, publication, by);
  cuda_check(cudaGetLastError(), "launching the write-back of " + std::to_string(write_backs.count) + " rows");
}

void write_back_evicted(const OwnerTransferRows& rows, const WriteBack* write_backs, std::int64_t count,
                        std::uint64_t number, const Launch& launch) {
  if (count == 0) return;
  const Movement moved = movement_of(count, lanes_for(rows), kBusBlocks, kMostTogether);
  const Sharing by = moved.by;
  const int threads = moved.threads, bytes = moved.list_bytes();
  const auto kernel = owner_write_back_evicted_kernel;
  kernel<<<moved.blocks, threads, bytes, stream_of(launch)>>>(rows, write_backs, count, number, by);
  cuda_check(cudaGetLastError(), "launching the write-back of " + std::to_string(count) + " rows");
}

}  // namespace frugal::cuda
