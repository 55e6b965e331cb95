// Torch has the same libraries: with names of their own these are never taken for torch's.
#define THRUST_CUB_WRAPPED_NAMESPACE frugal_sort

#include "store/cuda/sort_ids.h"

#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>

#include <algorithm>
#include <bit>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>
#include <string>

#include "base/device/cuda_check.h"
#include "store/lookup.h"

namespace frugal::cuda {
namespace {

namespace cub = frugal_sort::cub;
namespace thrust = frugal_sort::thrust;

using Number = std::uint64_t;  // of a row in its order; numbers() for an id that stands for no row

constexpr int kThreads = 256;
constexpr std::int64_t kMostBlocks = 1024;
constexpr std::size_t kAlignment = 256;

struct Scratch {
  std::int64_t* ids;
  Number *numbers, *sorted;
  std::int32_t *positions, *firsts;  // firsts: how many rows begin up to here
  SortedCounts* counts;
  void* library;
  std::size_t library_bytes;
};

// Whether a row begins at a place of the sorted numbers.
struct Begins {
  const Number* sorted;
  Number none;

  __host__ __device__ std::int32_t operator()(std::int64_t i) const {
    return sorted[i] != none && (i == 0 || sorted[i] != sorted[i - 1]);
  }
};

auto beginnings(const Number* sorted, Number none) {
  return thrust::make_transform_iterator(thrust::counting_iterator<std::int64_t>(0), Begins{sorted, none});
}

int bits_of(Number none) { return static_cast<int>(std::bit_width(none)); }

// What the library's two calls need, the larger one: for rows with any numbers.
std::size_t library_bytes(std::int64_t count) {
  std::size_t sort = 0, scan = 0;
  const Number* const numbers = nullptr;
  const std::int32_t* const positions = nullptr;
  cuda_check(cub::DeviceRadixSort::SortPairs(nullptr, sort, numbers, static_cast<Number*>(nullptr), positions,
                                             static_cast<std::int32_t*>(nullptr), count),
             "sizing a sort of " + std::to_string(count) + " ids");
  cuda_check(cub::DeviceScan::InclusiveSum(nullptr, scan, beginnings(numbers, 0),
                                           static_cast<std::int32_t*>(nullptr), count),
             "sizing a scan of " + std::to_string(count) + " ids");
  return std::max(sort, scan);
}

// The arrays one behind the other; returns where the last one ends.
std::size_t lay_out(std::byte* memory, std::int64_t count, std::size_t library, Scratch& scratch) {
  std::size_t end = 0;
  const auto place = [&]<class T>(T*& array, std::size_t bytes) {
    array = reinterpret_cast<T*>(memory + end);
    end += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  };
  const auto ids = static_cast<std::size_t>(count);
  place(scratch.ids, ids * sizeof(std::int64_t));
  place(scratch.numbers, ids * sizeof(Number));
  place(scratch.sorted, ids * sizeof(Number));
  place(scratch.positions, ids * sizeof(std::int32_t));
  place(scratch.firsts, ids * sizeof(std::int32_t));
  place(scratch.counts, sizeof(SortedCounts));
  std::byte* behind;
  place(behind, library);
  scratch.library = behind;
  scratch.library_bytes = library;
  return end;
}

__device__ std::int64_t first_index() { return std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ std::int64_t all_threads() { return std::int64_t{gridDim.x} * blockDim.x; }

__global__ void number_ids(std::int64_t count, OwnerOrder order, Scratch scratch) {
  for (std::int64_t i = first_index(); i < count; i += all_threads()) {
    const std::int64_t id = scratch.ids[i];
    const bool is_row = order.has(id);
    if (!is_row && id != kNoRow)
      atomicMax(reinterpret_cast<unsigned long long*>(&scratch.counts->from_wrong),
                static_cast<unsigned long long>(count - i));
    scratch.numbers[i] = is_row ? order.number_of(id) : static_cast<Number>(order.numbers());
    scratch.positions[i] = static_cast<std::int32_t>(i);
  }
}

__global__ void find_rows(std::int64_t count, OwnerOrder order, Scratch scratch, SortedIds out) {
  const auto none = static_cast<Number>(order.numbers());
  const Begins begins{scratch.sorted, none};
  const std::int32_t distinct = scratch.firsts[count - 1];
  const auto end_at = [&](std::int64_t occurrences) {
    scratch.counts->distinct = distinct;
    scratch.counts->occurrences = occurrences;
    out.offset[distinct] = static_cast<std::int32_t>(occurrences);
  };
  for (std::int64_t i = first_index(); i < count; i += all_threads()) {
    const bool is_row = scratch.sorted[i] != none;
    const std::int32_t u = is_row ? scratch.firsts[i] - 1 : distinct;
    out.inverse[out.order[i]] = u;
    if (begins(i)) {
      out.rows[u] = order.row_of(scratch.sorted[i]);
      out.offset[u] = static_cast<std::int32_t>(i);
    }
    if (!is_row && (i == 0 || scratch.sorted[i - 1] != none)) end_at(i);
    if (is_row && i == count - 1) end_at(count);
  }
}

__global__ void give_rows(const SortedCounts* counts, SortedIds out) {
  for (std::int64_t u = first_index(); u < counts->distinct; u += all_threads()) out.host_rows[u] = out.rows[u];
  if (first_index() == 0) *out.host_counts = *counts;
}

}  // namespace

std::size_t sort_bytes(std::int64_t count) {
  Scratch scratch;
  return lay_out(nullptr, count, library_bytes(count), scratch);
}

void sort_ids(const std::int64_t* ids, std::int64_t count, const OwnerOrder& order, std::byte* scratch_memory,
              std::size_t scratch_bytes, const SortedIds& out, std::uintptr_t stream) {
  const auto on = reinterpret_cast<cudaStream_t>(stream);
  const auto none = static_cast<Number>(order.numbers());
  const std::string what = "sorting " + std::to_string(count) + " ids";
  Scratch scratch;
  const std::size_t before = lay_out(scratch_memory, count, 0, scratch);
  scratch.library_bytes = scratch_bytes - before;
  const auto blocks = static_cast<unsigned>(std::min((count + kThreads - 1) / kThreads, kMostBlocks));
  cuda_check(cudaMemcpyAsync(scratch.ids, ids, static_cast<std::size_t>(count) * sizeof(*ids), cudaMemcpyHostToDevice,
                             on), what);
  cuda_check(cudaMemsetAsync(scratch.counts, 0, sizeof(SortedCounts), on), what);
  number_ids<<<blocks, kThreads, 0, on>>>(count, order, scratch);
  cuda_check(cub::DeviceRadixSort::SortPairs(scratch.library, scratch.library_bytes, scratch.numbers, scratch.sorted,
                                             scratch.positions, out.order, count, 0, bits_of(none), on), what);
  cuda_check(cub::DeviceScan::InclusiveSum(scratch.library, scratch.library_bytes, beginnings(scratch.sorted, none),
                                           scratch.firsts, count, on), what);
  find_rows<<<blocks, kThreads, 0, on>>>(count, order, scratch, out);
  give_rows<<<std::min(blocks, 64u), kThreads, 0, on>>>(scratch.counts, out);
  cuda_check(cudaGetLastError(), what);
}

}  // namespace frugal::cuda
