// A table of which each machine has a whole replica (replicas/replica_part.h), as relations: each machine sends the sums
// of its gradients to all others, and every machine applies those of all, in the order of machines.
//
// What a machine needs for its next step travels in kUrgent, all else in kRest (machine_steps.h).
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "machines/machine_steps.h"
#include "store/replicated_rows.h"

namespace frugal {

class MachineReplica final : public SummedRows {
 public:
  // part: for the longest step. The table must outlive this. Throws std::invalid_argument.
  MachineReplica(HostTable& replica, const ReplicaPart& part, int machine, int machines, float learning_rate);

  // As MachineRows.
  void announce(std::int64_t step, std::span<const MachineUse> of_machines);
  void announce(std::int64_t, std::span<const std::int64_t>, std::span<const std::int32_t>) override;
  void end() override;
  std::int64_t block_floats(MachineBlock block, std::int64_t boundary, int from, int to) const;
  void pack(MachineBlock block, std::int64_t boundary, int to, float* floats) const;
  void land(MachineBlock block, std::int64_t boundary, int from, const float* floats);
  void settle(MachineBlock block, std::int64_t boundary);

 private:
  using Rows = std::vector<std::int64_t>;

  const std::vector<Rows>* find(std::int64_t step) const;
  // Places among the rows of machine `from` of those that `to` is sent in this block.
  std::vector<std::int32_t> places(MachineBlock block, std::int64_t boundary, int from, int to) const;
  void put(const std::vector<std::int32_t>& places, std::int64_t boundary, int from, std::vector<float>& part) const;

  // Writes what this machine itself applies of its own sums.
  void take_own(MachineBlock block, std::int64_t boundary, std::vector<float>& part) const;

  HostTable& replica_;
  const int machine_, machines_;
  const float learning_rate_;
  std::int64_t first_ = 0;               // step of the first of steps_
  std::deque<std::vector<Rows>> steps_;  // by machine
  std::vector<float> sums_;              // of this machine's last step
  std::vector<float> rest_;              // of them, as a part, those that are applied with kRest
  std::vector<std::vector<float>> parts_;  // by machine, of the block that lands
};

}  // namespace frugal
