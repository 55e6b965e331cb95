// A lookup whose ids a CUDA device sorts out in its own memory; only the distinct rows come to the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/device/stream_event.h"
#include "store/cuda/sort_ids.h"

namespace frugal {

// What a sort of `most` ids needs: device memory for the sorted lookup and to work in, and pinned memory for rows.
struct SortMemory {
  std::int64_t most;
  std::byte* sorted;              // sorted_bytes(most)
  std::byte* scratch;             // for one sort at a time
  std::size_t scratch_bytes;      // cuda::sort_bytes(most)
  std::int64_t* host_rows;        // (most,)
  cuda::SortedCounts* host_counts;

  static std::size_t sorted_bytes(std::int64_t most);
  cuda::SortedIds place(std::int64_t count) const;
};

class DeviceLookup {
 public:
  // Enqueues the sort on a stream of the CUDA device `device`. ids: as for Lookup, in pinned memory, which stay as long
  // as this does.
  DeviceLookup(const std::int64_t* ids, std::int64_t count, std::int64_t rows, int owners,
               std::shared_ptr<SortMemory> memory, int device, std::uintptr_t stream);
  ~DeviceLookup();
  DeviceLookup(const DeviceLookup&) = delete;
  DeviceLookup& operator=(const DeviceLookup&) = delete;

  bool ready() const { return known_ || sorted_.passed(); }
  // Returns when the ids are sorted. Throws as Lookup. The functions below may be called afterwards.
  void wait();

  std::int64_t count() const { return count_; }
  std::int64_t occurrences() const { return counts().occurrences; }
  std::span<const std::int64_t> rows() const;
  const cuda::SortedIds& on_device() const { return out_; }
  const std::shared_ptr<SortMemory>& memory() const { return memory_; }
  int device() const { return device_; }

 private:
  const cuda::SortedCounts& counts() const;

  const std::int64_t* ids_;
  const std::int64_t count_, table_rows_;
  const std::shared_ptr<SortMemory> memory_;
  const int device_;
  const cuda::SortedIds out_;
  StreamEvent sorted_;
  bool known_ = false;
};

}  // namespace frugal
