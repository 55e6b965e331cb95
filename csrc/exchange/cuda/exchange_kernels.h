// The exchange (exchange/host_exchange.h) on devices, one for each rank: the same rules, inside a stream or a graph.
//
// A device has the parts of all ranks in its own memory: each writes its part there, over NVLink or PCIe, where its
// kernels make it, and says so in a word beside it. Where devices do not reach each other, parts and words lie in
// registered host memory. A kernel that waits holds its multiprocessors, but what it waits for has been submitted
// before it, so devices that submit the same exchanges always get on.
#pragma once

#include <cstdint>

#include "exchange/host_exchange.h"

namespace frugal::cuda {

// Where other ranks read what this one writes from `own` on; empty without other ranks.
struct Mirrors {
  int count = 0;
  const float* own = nullptr;
  float* at[kMostRanks - 1] = {};
};

// Addresses as this device sees them.
struct DeviceExchange {
  int rank, ranks;
  bool near;                              // whether the parts of all ranks lie in this device's memory
  float* part[kMostRanks];                // the first region of each
  std::int64_t second;                    // floats from a part's first region to its second one
  Mirrors mirrors;                        // of part[rank]
  std::uint64_t* tell[kMostRanks];        // where this rank's number is read by each of the others
  const std::uint64_t* hear[kMostRanks];  // and theirs by this one
  const std::uint32_t* failed;            // in host memory
  std::uint64_t* posted;                  // in device memory: how many exchanges this rank has been through
  unsigned *blocks_sent, *blocks_done;    // in device memory: 0 between kernels

  float* own() const { return part[rank]; }
};

// Enqueues an exchange: to[i] = (sum over ranks of part[first + i]) / divisor for i < count, a multiple of 4, like
// first. This rank's part has been written by earlier work on the stream, and is sent to its mirrors; for a few
// thousand floats. Throws DeviceError if the launch fails.
void exchange_sum(const DeviceExchange& exchange, std::int64_t first, std::int64_t count, float divisor, float* to,
                  std::uintptr_t stream);

// The same in two steps, for the first regions and many floats, where earlier work has written the mirrors, too: the
// devices meet, and then sums of parts may be taken; where parts are near, any kernel can do so by itself.
void meet(const DeviceExchange& exchange, std::uintptr_t stream);
void sum_parts(const DeviceExchange& exchange, std::int64_t count, float* to, std::uintptr_t stream);

}  // namespace frugal::cuda
