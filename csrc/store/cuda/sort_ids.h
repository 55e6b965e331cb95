// The ids of a lookup, sorted out by a CUDA device; the reference is store/lookup.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "store/owner_order.h"

namespace frugal::cuda {

// How many distinct rows a lookup has, how many ids that stand for a row, and how many ids from the first one on that
// is outside of the table, 0 if none is.
struct SortedCounts {
  std::int64_t distinct, occurrences, from_wrong;
};

// Where a sorted lookup lies on the device (see Lookup), and what the host reads of it, in pinned memory. All arrays of
// rows have room for each id.
struct SortedIds {
  std::int64_t* rows;
  std::int32_t *inverse, *offset, *order;
  std::int64_t* host_rows;
  SortedCounts* host_counts;
};

// Bytes of device memory that sort_ids works in, for up to so many ids.
std::size_t sort_bytes(std::int64_t count);

// Enqueues the sort on a cudaStream_t. ids: (count,) of the host, at least one, which stay until the sort is done.
// scratch: sort_bytes(count) or more. Throws DeviceError.
void sort_ids(const std::int64_t* ids, std::int64_t count, const OwnerOrder& order, std::byte* scratch,
              std::size_t scratch_bytes, const SortedIds& out, std::uintptr_t stream);

}  // namespace frugal::cuda
