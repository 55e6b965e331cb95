// Replicas on CUDA devices, in the stream or graph of a step; the reference, to the bit, is cpu/replica_updates.h.
#pragma once

#include <cstdint>

#include "comm/cuda/exchange_kernels.h"
#include "comm/replica_part.h"

namespace frugal::cuda {

// A rank's rows in device memory: ids (ascending, and more that only pad), how many there are, and their entries, each
// of which has its mean squares.
struct ReplicaRows {
  const std::int64_t* ids;
  const std::int32_t* used;
  EntryGradients entry[kMaxEntries];
};

// Enqueues: this rank's part goes to all ranks, which are told. Throws DeviceError if the launch fails.
void send_sums(const DeviceExchange& exchange, const ReplicaPart& part, const ReplicaRows& rows, std::uintptr_t stream);

// Enqueues: waits for the parts of all ranks and applies them to the replica, as cpu::apply_sums does; if somebody has
// failed it stays as it is.
void apply_sums(const DeviceExchange& exchange, const ReplicaPart& part, float* rows, std::int64_t stride,
                float learning_rate, std::uintptr_t stream);

}  // namespace frugal::cuda
