// Rows of a table of which every rank has a whole replica (replicas/replica_part.h), on the CPU: a step hands its
// gradients over, and at its end all ranks apply those of all ranks.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "exchange/host_exchange.h"
#include "replicas/replica_part.h"
#include "store/direct_rows.h"

namespace frugal {

class ReplicatedRows final : public DirectRows {
 public:
  // home: the table that all ranks see, which the first one trains in place. replica: of this rank; that table, or one
  // of its own, which becomes like home when the first step begins. part: for the longest step; dim as the table's. All
  // must outlive this.
  ReplicatedRows(HostTable& home, HostTable& replica, HostExchange& exchange, const ReplicaPart& part,
                 float learning_rate);

  void announce(std::int64_t step, std::span<const std::int64_t> rows,
                std::span<const std::int32_t> occurrences) override;
  void begin(std::int64_t step) override;
  std::span<float* const> destination() const override { return nowhere_; }
  std::span<float* const> gradient() const override { return gradient_; }
  // Meets the other ranks. Throws EngineError with the sentence of the one that failed.
  void end() override;

  std::int64_t steps_run() const { return steps_run_; }

 private:
  HostTable& home_;
  HostTable& replica_;
  HostExchange& exchange_;
  const ReplicaPart part_;
  const float learning_rate_;
  std::int64_t steps_run_ = 0;
  std::deque<std::vector<std::int32_t>> occurrences_;  // of the steps that are announced
  std::vector<float> gradients_;                       // of the running step, row after row
  std::vector<float*> nowhere_, gradient_;
  std::vector<std::int32_t> offset_[kMaxEntries], order_[kMaxEntries];
};

}  // namespace frugal
