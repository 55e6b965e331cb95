// Replicas on the CPU, and on a device that the CPU stands for. See comm/replica_part.h.
#pragma once

#include <span>
#include <vector>

#include "comm/replica_part.h"

namespace frugal::cpu {

// Writes this rank's part: rows ids (ascending, at most part.rows) with their entries.
void put_sums(const ReplicaPart& part, std::span<const std::int64_t> ids, std::span<const EntryGradients> entries,
              float* to);

// Applies the parts of all ranks, in their order, to the replica: rows `stride` floats apart, their state behind them.
void apply_sums(const ReplicaPart& part, const std::vector<const float*>& of_ranks, float* rows, std::int64_t stride,
                float learning_rate);

}  // namespace frugal::cpu
