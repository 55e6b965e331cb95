// Rows of a table of which every rank has a whole replica (comm/replica_part.h), on the CPU: a step hands its
// gradients over, and all ranks apply the sums of all ranks: at the step's end, where they share memory.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "comm/host_exchange.h"
#include "comm/replica_part.h"
#include "store/direct_rows.h"

namespace frugal {

// The functions of a replica that a step needs, whoever exchanges the sums.
class SummedRows : public DirectRows {
 public:
  // part: for the longest step; dim as the table's. The table must outlive this.
  SummedRows(HostTable& replica, const ReplicaPart& part);

  void announce(std::int64_t step, std::span<const std::int64_t> rows,
                std::span<const std::int32_t> occurrences) override;
  void begin(std::int64_t step) override;
  std::span<float* const> destination() const override { return nowhere_; }
  std::span<float* const> gradient() const override { return gradient_; }

  std::int64_t steps_run() const { return steps_run_; }

 protected:
  // Writes the running step's part, and ends the step.
  void put_part(float* to);

  const ReplicaPart part_;

 private:
  std::int64_t steps_run_ = 0;
  std::deque<std::vector<std::int32_t>> occurrences_;  // of the steps that are announced
  std::vector<float> gradients_;                       // of the running step, row after row
  std::vector<float*> nowhere_, gradient_;
  std::vector<std::int32_t> offset_[kMaxEntries], order_[kMaxEntries];
};

class ReplicatedRows final : public SummedRows {
 public:
  // host: the table that all ranks see, which the first one trains in place. replica: of this rank; that table, or one
  // of its own, which becomes like host when the first step begins. part: for the longest step; dim as the table's. All
  // must outlive this.
  ReplicatedRows(HostTable& host, HostTable& replica, HostExchange& exchange, const ReplicaPart& part,
                 float learning_rate);

  void begin(std::int64_t step) override;
  // Synchronises with the other ranks. Throws EngineError with the sentence of the one that failed.
  void end() override;

 private:
  HostTable& host_;
  HostTable& replica_;
  HostExchange& exchange_;
  const float learning_rate_;
};

}  // namespace frugal
