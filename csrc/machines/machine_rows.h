// Rows that have an owner each, as the step of one machine finds them (machine_steps.h).
//
// A row lies in its owner's table alone. Another machine that uses it has its value for one step. If nobody else uses it
// in that step, the user updates the value and returns it; the bits are those that the owner would have computed. If
// several use it, each hands its gradients over, and the owner applies them entry by entry in the order of machines, as
// the engine applies those of workers on one machine (engine/record_writer.h).
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "machines/machine_steps.h"
#include "memory/half_rows.h"
#include "memory/host_table.h"
#include "memory/row_owners.h"
#include "optim/row_update.h"
#include "store/step_rows.h"

namespace frugal {

class MachineRows final : public StepRows {
 public:
  // own: the rows that `machine` owns, which must outlive this. rounding: of a table in halves. Throws
  // std::invalid_argument for a table that has other rows, or too many machines.
  MachineRows(HostTable& own, const RowOwners& owners, int machine, float learning_rate, const Rounding& rounding = {});

  const RowLayout& layout() const override { return own_.layout(); }
  // What all machines use in a step, of two entries. Steps are announced in order, each once, two beyond the running one
  // at least. Copies it. Throws std::invalid_argument.
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
  void pack(MachineBlock block, std::int64_t boundary, int to, float* floats) const;
  void land(MachineBlock block, std::int64_t boundary, int from, const float* floats);
  // After kUrgent or kRest of a boundary has landed from all machines: applies the gradients that have come.
  void settle(MachineBlock block, std::int64_t boundary);

  std::int64_t steps_run() const { return steps_run_; }

 private:
  using Users = std::uint64_t;

  struct UsedRow {
    std::int64_t id;
    int owner;
    Users users;           // machines, as bits
    Users before = 0, next = 0, second = 0;  // of the steps one before, one and two behind
  };

  struct Step {
    std::int64_t number;
    std::vector<std::int64_t> own;  // rows that this machine uses
    std::vector<UsedRow> rows;      // that any machine uses, ascending
    // By machine: places of its rows in `rows`; for each of `rows`, its place among them, -1 for none; and how many
    // gradients they have, entry after entry.
    std::vector<std::vector<std::int32_t>> used, place, occurrences;
    std::vector<float> values, gradients;  // of rows that others own; that this machine hands over
    std::vector<std::int64_t> value_at, gradient_at;  // by place among own: first float there, -1 for none
    std::vector<std::vector<float>> landed;           // by machine: gradients of this machine's rows
    std::vector<std::vector<std::int64_t>> landed_at;  // by machine, by place among its rows: first float there
    bool has_room = false;
  };

  static Users bit(int machine) { return Users{1} << machine; }
  static bool is_shared(const UsedRow& row) { return (row.users & (row.users - 1)) != 0; }
  static bool is_urgent(const UsedRow& row) { return row.next != 0 || (row.second & ~bit(row.owner)) != 0; }
  // In which block the value for a user that does not own the row travels.
  static MachineBlock way_of_value(const UsedRow& row) {
    return row.before == 0               ? MachineBlock::kAhead
           : row.before == bit(row.owner) ? MachineBlock::kUrgent
                                          : MachineBlock::kLate;
  }

  Step* find(std::int64_t step);
  const Step* find(std::int64_t step) const { return const_cast<MachineRows*>(this)->find(step); }
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
  std::deque<Step> steps_;
  std::vector<Step> spare_;  // whose memory is used again
  Step* running_ = nullptr;
  std::int64_t steps_run_ = 0;
  std::vector<float*> source_, destination_, gradient_;
};

}  // namespace frugal
