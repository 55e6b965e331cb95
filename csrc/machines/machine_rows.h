// Rows that have an owner each, as the step of one machine finds them (machine_steps.h).
//
// A row lies in its owner's table alone. Another machine that uses it has its value for one step. If nobody else uses
// it in that step, the user updates the value and returns it; the bits are those that the owner would have computed. If
// several use it, each hands its gradients over, and the owner applies them entry by entry in the order of machines, as
// the engine applies those of workers on one machine (engine/record_writer.h). Who needs the row in the very next step
// does not wait for the owner: of a row with one user it gets the value from there, of one with two the gradients of
// both, which it applies as the owner does.
#pragma once

#include <bit>
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
  // The rows that all machines use in a step, of two entries. Steps are announced in order, each once, at least two
  // beyond the running one. Copies the rows. Throws std::invalid_argument. While one thread packs and lands kRest and
  // kAhead, or lands and applies kUrgent, another thread may announce steps, and run the step during which these blocks
  // travel.
  void announce(std::int64_t step, std::span<const MachineUse> of_machines);
  void announce(std::int64_t, std::span<const std::int64_t>, std::span<const std::int32_t>) override;
  // The step's values have landed.
  void begin(std::int64_t step) override;
  std::span<const std::int64_t> rows() const override { return running_->own; }
  std::span<float* const> source() const override { return running_->source; }
  std::span<float* const> destination() const override { return running_->destination; }
  std::span<float* const> gradient() const override { return running_->gradient; }
  std::span<const std::uint8_t> early() const override { return running_->early; }
  void end() override { ++steps_run_; }
  void drain() override {}  // by those who make the blocks

  // Of the blocks of a boundary: floats of the one from one machine to another, known to all.
  std::int64_t block_floats(MachineBlock block, std::int64_t boundary, int from, int to) const;
  // Whether any machine sends another something in kLate.
  bool has_late(std::int64_t boundary) const;
  void pack(MachineBlock block, std::int64_t boundary, int to, float* floats) const;
  void land(MachineBlock block, std::int64_t boundary, int from, const float* floats);
  // After kUrgent or kRest of a boundary has landed from all machines: applies the gradients that have come.
  void apply(MachineBlock block, std::int64_t boundary);

  std::int64_t steps_run() const { return steps_run_; }

 private:
  struct Step : StepUse {
    std::vector<std::int64_t> own;         // rows that this machine uses
    std::vector<float> values, gradients;  // of rows that others own; that this machine sends
    std::vector<std::int64_t> value_at, gradient_at;   // by place among own: first float there, -1 for none
    std::vector<std::vector<float>> landed;            // by machine: gradients of this machine's rows
    std::vector<std::vector<std::int64_t>> landed_at;  // by machine, by place among its rows: first float there
    std::vector<float*> source, destination, gradient;  // see StepRows
    std::vector<std::uint8_t> early;
    bool has_room = false;
  };

  // Whether the gradients of a row go to all machines that need it next, and not by its owner: with more users than
  // two, that would send more.
  static bool is_direct(Users users) { return std::popcount(users) <= 2; }
  // Whether machine `to`, the owner or one that needs the row next, has to have a row's result before the next step.
  static bool is_urgent(const UsedRow& row, int to) {
    const bool uses = (row.next & machine_bit(to)) != 0;
    return to == row.owner ? uses || (row.next != 0 && !is_direct(row.users)) : uses && is_direct(row.users);
  }
  // Whether a user of a row sends `to` its value. One that has not used the row has no value that gradients change.
  static bool sends_value(const UsedRow& row, int from, int to) {
    return !row.is_shared() ||
           (to != row.owner && !(row.users & machine_bit(to)) && from == first_of(row.users));
  }
  // In which block the value for a user that does not own the row travels.
  static MachineBlock way_of_value(const UsedRow& row) {
    return row.before == 0          ? MachineBlock::kAhead
           : is_direct(row.before) ? MachineBlock::kUrgent
                                    : MachineBlock::kLate;
  }

  std::int64_t gradients_of(const Step& step, int machine, std::int32_t u) const;
  float* own_row(const UsedRow& row) const { return own_.row(row.local); }
  // Where this machine has the value of its row u.
  float* value(const Step& step, std::size_t u) const;
  // Where the next step of this machine reads a row of `step` that others own.
  float* next_value(const UsedRow& row, std::int64_t boundary);
  // Of a step before which its rows' next uses are announced: where its rows lie.
  void make_room(Step& step);
  struct Due;
  void apply_gradients(Step& step, const Due& due);
  // Calls f(step, row, u) for each row whose result `from` sends in this block; u: the place of the row at `from`.
  template <typename F>
  void for_results(MachineBlock block, std::int64_t boundary, int from, int to, F f) const;
  // Calls f(step, row, u) for each row whose value in its owner's table is sent to `to`, whose place u it has.
  template <typename F>
  void for_values(MachineBlock block, std::int64_t boundary, int from, int to, F f) const;

  HostTable& own_;
  const RowOwners owners_;
  const int machine_;
  const RowAdagradUpdate update_;
  const Rounding rounding_;
  const RowLayout floats_;  // of gradients
  StepUses<Step> steps_;
  Step* running_ = nullptr;
  std::int64_t steps_run_ = 0;
};

}  // namespace frugal
