// Rows that have an owner each, as the step of one machine finds them (machine_steps.h).
//
// A row lies in its owner's table alone. Another machine that uses it has its value for one step. If nobody else uses
// it in that step, the user updates the value and returns it; the bits are those that the owner would have computed. If
// several use it, each hands its gradients over, and the owner applies them entry by entry in the order of machines, as
// the engine applies those of workers on one machine (engine/record_writer.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "machines/step_uses.h"
#include "store/step_rows.h"
#include "table/half_rows.h"
#include "table/host_table.h"
#include "table/row_owners.h"
#include "table/row_update.h"

namespace frugal {

class MachineRows final : public StepRows {
 public:
  // own: the rows that `machine` owns, which must outlive this. rounding: of a table in half precision. Throws
  // std::invalid_argument for a table that has other rows, or too many machines.
  MachineRows(HostTable& own, const RowOwners& owners, int machine, float learning_rate, const Rounding& rounding = {});

  const RowLayout& layout() const override { return own_.layout(); }
  // What all machines use in a step, of two entries. Steps are announced in order, each once, two beyond the running
  // one at least. Copies it. Throws std::invalid_argument.
  void announce(std::int64_t step, std::span<const MachineUse> of_machines);
  void announce(std::int64_t, std::span<const std::int64_t>, std::span<const std::int32_t>) override;
  // The step's values have landed.
  void begin(std::int64_t step) override;
  std::span<const std::int64_t> rows() const override { return running_->own; }
  std::span<float* const> source() const override { return source_; }
  std::span<float* const> destination() const override { return destination_; }
  std::span<float* const> gradient() const override { return gradient_; }
  void end() override { ++steps_run_; }
  void drain() override {}  // by those who make the blocks

  // Of the blocks of a boundary: floats of the one from one machine to another, known to all.
  std::int64_t block_floats(MachineBlock block, std::int64_t boundary, int from, int to) const;
  // Whether any machine sends another something in kLate.
  bool has_late(std::int64_t boundary) const;
  void pack(MachineBlock block, std::int64_t boundary, int to, float* floats) const;
  void land(MachineBlock block, std::int64_t boundary, int from, const float* floats);
  // After kUrgent or kRest of a boundary has landed from all machines: applies the gradients that have come.
  void settle(MachineBlock block, std::int64_t boundary);

  std::int64_t steps_run() const { return steps_run_; }

 private:
  struct Step : StepUse {
    std::vector<std::int64_t> own;         // rows that this machine uses
    std::vector<float> values, gradients;  // of rows that others own; that this machine sends
    std::vector<std::int64_t> value_at, gradient_at;   // by place among own: first float there, -1 for none
    std::vector<std::vector<float>> landed;            // by machine: gradients of this machine's rows
    std::vector<std::vector<std::int64_t>> landed_at;  // by machine, by place among its rows: first float there
    bool has_room = false;
  };

  int owner(const UsedRow& row) const { return owners_.owner(row.id); }
  bool is_urgent(const UsedRow& row) const {
    return row.next != 0 || (row.second & ~machine_bit(owner(row))) != 0;
  }
  // In which block the value for a user that does not own the row travels.
  MachineBlock way_of_value(const UsedRow& row) const {
    return row.before == 0                         ? MachineBlock::kAhead
           : row.before == machine_bit(owner(row)) ? MachineBlock::kUrgent
                                                   : MachineBlock::kLate;
  }

  std::int64_t gradients_of(const Step& step, int machine, std::int32_t u) const;
  void make_room(Step& step);
  void apply_gradients(Step& step, std::size_t place);
  // Calls f(step, row, u, is_value) for each row of a block in its order; u: its place among those of its user.
  template <typename F>
  void for_block(MachineBlock block, std::int64_t boundary, int from, int to, F f) const;

  HostTable& own_;
  const RowOwners owners_;
  const int machine_;
  const RowAdagradUpdate update_;
  const Rounding rounding_;
  const RowLayout floats_;  // of gradients
  StepUses<Step> steps_;
  Step* running_ = nullptr;
  std::int64_t steps_run_ = 0;
  std::vector<float*> source_, destination_, gradient_;
};

}  // namespace frugal
