// A table of which each machine has a replica (comm/replica_part.h), as relations: a row is alike wherever it is
// fresh.
//
// The machines that use a row in a step exchange the sums of their gradients, and each of them applies those of all, in
// the order of machines. A machine that alone uses it applies its own, and sends nothing. Who has not taken part has an
// old value, and gets the new one from a machine that has it when a step of its own is to use the row. So a row travels
// when its users change, and not with each step.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "machines/step_uses.h"
#include "store/replicated_rows.h"

namespace frugal {

class MachineReplica final : public SummedRows {
 public:
  // part: for the longest step. The table, which all machines begin with alike, must outlive this. Throws
  // std::invalid_argument.
  MachineReplica(HostTable& replica, const ReplicaPart& part, int machine, int machines, float learning_rate);

  // As MachineRows.
  void announce(std::int64_t step, std::span<const MachineUse> of_machines);
  void announce(std::int64_t, std::span<const std::int64_t>, std::span<const std::int32_t>) override;
  void end() override;
  std::int64_t block_floats(MachineBlock block, std::int64_t boundary, int from, int to) const;
  bool has_late(std::int64_t boundary) const;
  void pack(MachineBlock block, std::int64_t boundary, int to, float* floats) const;
  void land(MachineBlock block, std::int64_t boundary, int from, const float* floats);
  // Also after kWhole.
  void apply(MachineBlock block, std::int64_t boundary);

 private:
  using Places = std::vector<std::int32_t>;

  struct Transfer {
    std::int64_t row;
    int from;
    Users to;
    MachineBlock way;
  };

  struct Step : StepUse {
    std::vector<Transfer> transfers;  // of values that users lack
  };

  // Of a row, as far as steps are announced.
  struct Planned {
    Users fresh;  // machines that have its value
    std::int64_t last = -1;
    bool shared = false;  // whether several have used it in that step
  };

  // Whether machine `to` needs the sums of others at once: for its next step, or to send the row to who lacks it there.
  static bool is_urgent(const UsedRow& row, int to) {
    const bool sends = to == first_of(row.users) && (row.next & ~row.users) != 0;
    return sends || (row.next & machine_bit(to)) != 0;
  }
  Users all() const { return machines_ == kMostMachines ? ~Users{0} : machine_bit(machines_) - 1; }
  // Places among the rows of machine `from` in the step before, of those whose sums `to` is sent in this block.
  Places summed(MachineBlock block, std::int64_t boundary, int from, int to) const;
  // Rows whose values travel in this block.
  std::vector<std::int64_t> values(MachineBlock block, std::int64_t boundary, int from, int to) const;
  // This machine's sums of the step before a boundary, which travel until the next one.
  std::vector<float>& sums(std::int64_t boundary) { return sums_[static_cast<std::size_t>(boundary & 1)]; }
  const std::vector<float>& sums(std::int64_t boundary) const { return sums_[static_cast<std::size_t>(boundary & 1)]; }
  // By machine, of a block that lands: those of kUrgent and of kRest land on different threads.
  std::vector<std::vector<float>>& parts(MachineBlock block) {
    return block == MachineBlock::kRest ? rest_parts_ : urgent_parts_;
  }
  // Names rows of the step before in a part; of this machine's own, with their sums.
  void put(const Places& places, std::int64_t boundary, int from, std::vector<float>& part) const;
  void take_own(const Places& places, std::int64_t boundary, std::vector<float>& part) const;
  std::int64_t record_floats() const { return part_.dim + 1; }

  HostTable& replica_;
  const int machine_, machines_;
  const float learning_rate_;
  StepUses<Step> steps_;
  std::vector<Planned> planned_;         // by row
  std::vector<Users> fresh_;             // by row: machines that have its value, as far as steps have run
  std::vector<float> sums_[2];
  std::vector<std::vector<float>> urgent_parts_, rest_parts_;
};

}  // namespace frugal
