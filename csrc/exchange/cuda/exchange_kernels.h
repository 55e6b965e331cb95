// The exchange (exchange/host_exchange.h) on devices, one for each rank: the same rules, inside a stream or a graph.
//
// A device writes its part into memory of its own and says so in a word of each of the others, which read the part
// over NVLink or PCIe; where they cannot, parts and words lie in registered host memory. A kernel that waits holds its
// multiprocessors, but what it waits for has been submitted before it, so devices that submit the same exchanges always
// get on, however few of its blocks run at a time.
#pragma once

#include <cstdint>

#include "exchange/host_exchange.h"

namespace frugal::cuda {

// Addresses as this device sees them.
struct DeviceExchange {
  int rank, ranks;
  const float* part[kMostRanks];           // the first region; the second one follows it
  std::uint64_t* tell[kMostRanks];         // where this rank's number is read by each of the others
  const std::uint64_t* hear[kMostRanks];   // and theirs by this one
  const std::uint32_t* failed;             // in host memory
  std::uint64_t* posted;                   // in device memory: how many exchanges this rank has been through
  unsigned* blocks_done;                   // in device memory: 0 between kernels
  float* own;                              // part[rank], to be written
  float* outbox;                           // where others read it, if they do not reach this device's memory; else null
};

// Enqueues an exchange: to[i] = (sum over ranks of part[first + i]) / divisor for i < count, a multiple of 4, like
// first. own + first has been written by earlier work on the stream. Throws DeviceError if the launch fails.
void exchange_sum(const DeviceExchange& exchange, std::int64_t first, std::int64_t count, float divisor, float* to,
                  std::uintptr_t stream);

// Enqueues a copy of `from` to where exchange_sum takes this rank's part. Throws DeviceError if it cannot be.
void put_part(const DeviceExchange& exchange, std::int64_t first, std::int64_t count, const float* from,
              std::uintptr_t stream);

}  // namespace frugal::cuda
