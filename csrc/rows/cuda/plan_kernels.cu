#include "base/device/cuda_check.h"
#include "base/device/last_block.cuh"
#include "rows/cuda/plan_kernels.h"
#include "rows/cuda/prefetch.h"
#include "rows/cuda/row_movement.cuh"

namespace frugal::cuda {
namespace {

constexpr int kThreads = 256;

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

// As gather_kernel, of rows in half precision.
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
              [&](int i, const Word& word) { expand_word(memory, word, i, record); });
  }
}

template <bool kAwaits>
__global__ void __launch_bounds__(kMostThreads)
    write_back_rows_kernel(RowMemory memory, RowWriteBacks write_backs, Publication publication, Sharing by) {
  LastWord last;
  move_rows(
      by, write_backs.count, gridDim.x, 1, static_cast<int>(memory.record_floats() / 4),
      [&](std::int64_t u) {
        const RowWriteBacks::Way way = write_backs.of(u);
        return Wanted{way.row, way.slot};
      },
      [&](const Wanted& wanted, int, const Word*& from, float*& to) {
        from = reinterpret_cast<const Word*>(memory.cache + wanted.place * memory.stride);
        to = memory.host_rows + wanted.row * memory.stride;
      },
      [&](float* to, int i, const Word& word) { last.store(to, i, word); },
      [&](const Team& team) {
        if (kAwaits) last.await(team);
      });
  if (publication.counter != nullptr && is_last_block(publication.turn) && threadIdx.x == 0)
    store_counter(publication.counter, publication.value);
}

// `lanes` threads per row.
__global__ void __launch_bounds__(kThreads)
    stage_evicted_kernel(RowMemory memory, RowEvictions evictions, const std::int64_t* target, std::int64_t count,
                         int lanes) {
  const int lane = threadIdx.x % lanes;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * (kThreads / lanes);
  for (std::int64_t u = static_cast<std::int64_t>(blockIdx.x) * (kThreads / lanes) + threadIdx.x / lanes; u < count;
       u += step)
    if (evictions.has(u))
      copy_record(memory.cache + evictions.slot(u) * memory.stride, memory.cache + target[u] * memory.stride, memory,
                  lane, lanes);
}

__global__ void __launch_bounds__(kThreads)
    write_back_evicted_kernel(RowMemory memory, const WriteBack* write_backs, std::int64_t count, int lanes) {
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
    expand_to_ids_kernel(RowExpansion expansion, const Element* records, std::int64_t stride, int dim, Element* out,
                         int lanes) {
  const int lane = threadIdx.x % lanes;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * (kThreads / lanes);
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * (kThreads / lanes) + threadIdx.x / lanes;
       i < expansion.count; i += step) {
    const std::int32_t u = expansion.inverse[i];
    for (int k = lane; k < dim; k += lanes) out[i * dim + k] = u < expansion.rows ? records[u * stride + k] : Element{};
  }
}

// Kernels before this one on the stream are done.
__global__ void publish_kernel(std::uint64_t* counter, const std::int64_t* value) { store_counter(counter, value); }

using GatherKernel = void (*)(RowMemory, RowReads, float*, int);

GatherKernel gather_of(RowElement element) {
  return element == RowElement::kFloat32 ? gather_kernel : expand_kernel;
}

}  // namespace

void gather(const RowMemory& memory, const RowReads& reads, float* records, const Launch& launch) {
  if (reads.count == 0) return;
  if (reads.part == ReadPart::kHost) return prefetch(memory, reads, records, {}, launch);
  const int lanes = lanes_of(memory);
  const Blocks& most = blocks_by(launch.crossing, kBusBlocks, kBusBlocks);
  const int threads = most.threads;
  const auto kernel = gather_of(memory.element);
  kernel<<<blocks_for(reads.count, lanes, most), threads, 0, stream_of(launch)>>>(memory, reads, records, lanes);
  cuda_check(cudaGetLastError(), "launching the gather of " + std::to_string(reads.count) + " rows");
}

void write_back_rows(const RowMemory& memory, const RowWriteBacks& write_backs, const Launch& launch,
                     const Publication& publication) {
  if (write_backs.count == 0 && publication.counter == nullptr) return;
  const Movement moved =
      write_back_movement(write_backs.count, lanes_of(memory), launch.crossing, 4 * memory.record_floats());
  const Sharing by = moved.by;
  const int threads = moved.threads, bytes = moved.list_bytes();
  const auto kernel = moved.awaits ? write_back_rows_kernel<true> : write_back_rows_kernel<false>;
  kernel<<<moved.blocks, threads, bytes, stream_of(launch)>>>(memory, write_backs, publication, by);
  cuda_check(cudaGetLastError(), "launching the return of " + std::to_string(write_backs.count) + " rows");
}

void stage_evicted(const RowMemory& memory, const RowEvictions& evictions, const std::int64_t* target,
                   std::int64_t count, const Launch& launch) {
  if (count == 0) return;
  const int lanes = lanes_of(memory);
  stage_evicted_kernel<<<blocks_for(count, lanes, kAllBlocks), kThreads, 0, stream_of(launch)>>>(memory, evictions,
                                                                                                 target, count, lanes);
  cuda_check(cudaGetLastError(), "launching the eviction of some of " + std::to_string(count) + " rows");
}

void write_back_evicted(const RowMemory& memory, const WriteBack* write_backs, std::int64_t count,
                        const Launch& launch) {
  if (count == 0) return;
  const int lanes = lanes_of(memory);
  write_back_evicted_kernel<<<blocks_for(count, lanes, kBusBlocks), kThreads, 0, stream_of(launch)>>>(
      memory, write_backs, count, lanes);
  cuda_check(cudaGetLastError(), "launching the write-back of " + std::to_string(count) + " rows");
}

void expand(const RowExpansion& expansion, float* out, const Launch& launch) {
  if (expansion.count == 0) return;
  const bool words = expansion.dim % 4 == 0 && expansion.stride % 4 == 0;
  const auto elements = static_cast<int>(words ? expansion.dim / 4 : expansion.dim);
  const int lanes = lanes_for_words(elements);
  const unsigned blocks = blocks_for(expansion.count, lanes, kAllBlocks);
  if (words)
    expand_to_ids_kernel<<<blocks, kThreads, 0, stream_of(launch)>>>(
        expansion, reinterpret_cast<const Word*>(expansion.records), expansion.stride / 4, elements,
        reinterpret_cast<Word*>(out), lanes);
  else
    expand_to_ids_kernel<<<blocks, kThreads, 0, stream_of(launch)>>>(expansion, expansion.records, expansion.stride,
                                                                     elements, out, lanes);
  cuda_check(cudaGetLastError(), "launching the rows of " + std::to_string(expansion.count) + " ids");
}

void publish(std::uint64_t* counter, const std::int64_t* value, const Launch& launch) {
  publish_kernel<<<1, 1, 0, stream_of(launch)>>>(counter, value);
  cuda_check(cudaGetLastError(), "launching the publication of a step");
}

}  // namespace frugal::cuda
