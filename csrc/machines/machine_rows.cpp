#include "machines/machine_rows.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "base/parallel/thread_pool.h"

namespace frugal {
namespace {

constexpr std::int64_t kSharedRowsPerTask = 16;  // below this a second thread costs more than it saves

void require(bool condition, const char* sentence) {
  if (!condition) throw std::invalid_argument(sentence);
}

}  // namespace

MachineRows::MachineRows(HostTable& own, const RowOwners& owners, int machine, float learning_rate,
                         const Rounding& rounding)
    : own_(own),
      owners_(owners),
      machine_(machine),
      update_(learning_rate),
      rounding_(rounding),
      floats_(own.layout().in_floats()) {
  require(owners.workers() <= kMostMachines, "there are more machines than a row can have users");
  require(machine >= 0 && machine < owners.workers() && own.rows() == owners.count(machine),
          "the table must have a row for each one that the machine owns");
  require(own.layout().state == 1, "rows have the state of row-wise Adagrad");
}

void MachineRows::announce(std::int64_t, std::span<const std::int64_t>, std::span<const std::int32_t>) {
  throw std::logic_error("the rows of all machines must be announced together");
}

void MachineRows::announce(std::int64_t number, std::span<const MachineUse> of_machines) {
  require(of_machines.size() == static_cast<std::size_t>(owners_.workers()), "each machine has rows in each step");
  Step& step = steps_.announce(number, of_machines, owners_.rows(), kMostMachineEntries);
  const auto& mine = of_machines[static_cast<std::size_t>(machine_)].rows;
  step.own.assign(mine.begin(), mine.end());
  step.has_room = false;
}

std::int64_t MachineRows::gradients_of(const Step& step, int machine, std::int32_t u) const {
  const auto& occurrences = step.occurrences[static_cast<std::size_t>(machine)];
  const std::size_t rows = occurrences.size() / kMostMachineEntries, at = static_cast<std::size_t>(u);
  return occurrences[at] + occurrences[rows + at];
}

void MachineRows::make_room(Step& step) {
  if (std::exchange(step.has_room, true)) return;
  const auto machine = static_cast<std::size_t>(machine_);
  const std::size_t count = step.own.size();
  std::int64_t values = 0, gradients = 0;
  step.value_at.assign(count, -1);
  step.gradient_at.assign(count, -1);
  for (std::size_t u = 0; u < count; ++u) {
    const UsedRow& row = step.rows[static_cast<std::size_t>(step.used[machine][u])];
    if (owner(row) != machine_) values = (step.value_at[u] = values) + layout().stride;
    if (row.is_shared())
      gradients = (step.gradient_at[u] = gradients) +
                  gradients_of(step, machine_, static_cast<std::int32_t>(u)) * floats_.stride;
  }
  if (step.values.size() < static_cast<std::size_t>(values)) step.values.resize(static_cast<std::size_t>(values));
  if (step.gradients.size() < static_cast<std::size_t>(gradients))
    step.gradients.resize(static_cast<std::size_t>(gradients));
  step.landed.resize(step.used.size());
  step.landed_at.resize(step.used.size());
  for (std::size_t m = 0; m < step.used.size(); ++m) {
    step.landed[m].clear();
    step.landed_at[m].assign(step.used[m].size(), -1);
  }
}

void MachineRows::begin(std::int64_t number) {
  running_ = steps_.find(number);
  if (running_ == nullptr) throw std::logic_error("a step must be announced before it begins");
  Step& step = *running_;
  make_room(step);
  const std::size_t count = step.own.size();
  source_.resize(count);
  destination_.resize(count);
  gradient_.resize(count);
  for (std::size_t u = 0; u < count; ++u) {
    source_[u] = step.value_at[u] < 0 ? own_.row(owners_.local(step.own[u])) : step.values.data() + step.value_at[u];
    gradient_[u] = step.gradient_at[u] < 0 ? nullptr : step.gradients.data() + step.gradient_at[u];
    destination_[u] = gradient_[u] ? nullptr : source_[u];
  }
}

template <typename F>
void MachineRows::for_block(MachineBlock block, std::int64_t boundary, int from, int to, F f) const {
  if (block == MachineBlock::kUrgent || block == MachineBlock::kRest)
    if (const Step* step = steps_.find(boundary - 1))
      step->for_rows_of(from, [&](const UsedRow& row, std::int32_t u) {
        if (owner(row) == to && is_urgent(row) == (block == MachineBlock::kUrgent)) f(*step, row, u, false);
      });
  if (block == MachineBlock::kRest || block == MachineBlock::kWhole) return;
  if (const Step* step = steps_.find(block == MachineBlock::kAhead ? boundary + 1 : boundary))
    step->for_rows_of(to, [&](const UsedRow& row, std::int32_t u) {
      if (owner(row) == from && way_of_value(row) == block) f(*step, row, u, true);
    });
}

std::int64_t MachineRows::block_floats(MachineBlock block, std::int64_t boundary, int from, int to) const {
  std::int64_t floats = 0;
  for_block(block, boundary, from, to, [&](const Step& step, const UsedRow& row, std::int32_t u, bool is_value) {
    floats += is_value || !row.is_shared() ? layout().record_floats() : gradients_of(step, from, u) * layout().dim;
  });
  return floats;
}

bool MachineRows::has_late(std::int64_t boundary) const {
  const Step* const step = steps_.find(boundary);
  return step && std::ranges::any_of(step->rows, [&](const UsedRow& row) {
    return (row.users & ~machine_bit(owner(row))) != 0 && way_of_value(row) == MachineBlock::kLate;
  });
}

void MachineRows::pack(MachineBlock block, std::int64_t boundary, int to, float* floats) const {
  const std::int64_t record = layout().record_floats(), dim = layout().dim;
  for_block(block, boundary, machine_, to, [&](const Step& step, const UsedRow& row, std::int32_t u, bool is_value) {
    if (is_value) {
      floats = std::copy_n(own_.row(owners_.local(row.id)), record, floats);
    } else if (!row.is_shared()) {
      floats = std::copy_n(step.values.data() + step.value_at[static_cast<std::size_t>(u)], record, floats);
    } else {
      const float* from = step.gradients.data() + step.gradient_at[static_cast<std::size_t>(u)];
      for (std::int64_t i = gradients_of(step, machine_, u); i > 0; --i, from += floats_.stride)
        floats = std::copy_n(from, dim, floats);
    }
  });
}

void MachineRows::land(MachineBlock block, std::int64_t boundary, int from, const float* floats) {
  const std::int64_t record = layout().record_floats();
  for_block(block, boundary, from, machine_, [&](const Step& known, const UsedRow& row, std::int32_t u, bool is_value) {
    Step& step = const_cast<Step&>(known);  // of steps_
    make_room(step);
    if (is_value) {
      std::copy_n(floats, record, step.values.data() + step.value_at[static_cast<std::size_t>(u)]);
      floats += record;
    } else if (!row.is_shared()) {
      std::copy_n(floats, record, own_.row(owners_.local(row.id)));
      floats += record;
    } else {
      std::vector<float>& landed = step.landed[static_cast<std::size_t>(from)];
      const std::int64_t count = gradients_of(step, from, u) * layout().dim;
      step.landed_at[static_cast<std::size_t>(from)][static_cast<std::size_t>(u)] =
          static_cast<std::int64_t>(landed.size());
      landed.insert(landed.end(), floats, floats + count);
      floats += count;
    }
  });
}

void MachineRows::apply_gradients(Step& step, std::size_t place) {
  const UsedRow& row = step.rows[place];
  const RowLayout& layout = own_.layout();
  float* const host_row = own_.row(owners_.local(row.id));
  std::vector<float> wide;
  float* record = host_row;
  if (layout.is_half()) {
    wide.resize(static_cast<std::size_t>(floats_.stride));
    expand_record(layout, host_row, record = wide.data());
  }
  std::vector<std::int64_t> taken(step.used.size(), 0);  // gradients of entries that are done, by machine
  std::vector<const float*> gradients;
  for (std::size_t entry = 0; entry < kMostMachineEntries; ++entry) {
    gradients.clear();
    for (std::size_t m = 0; m < step.used.size(); ++m) {
      if (!(row.users & machine_bit(static_cast<int>(m)))) continue;
      const auto u = static_cast<std::size_t>(step.place[m][place]);
      const bool is_mine = static_cast<int>(m) == machine_;
      if (!is_mine && step.landed_at[m][u] < 0)
        throw std::logic_error("gradients of a row are to be applied before all have landed");
      const float* const first =
          is_mine ? step.gradients.data() + step.gradient_at[u] : step.landed[m].data() + step.landed_at[m][u];
      const std::int64_t apart = is_mine ? floats_.stride : layout.dim;
      const std::int32_t count = step.occurrences[m][entry * step.used[m].size() + u];
      for (std::int32_t i = 0; i < count; ++i) gradients.push_back(first + taken[m]++ * apart);
    }
    if (!gradients.empty()) update_.apply(record, gradients, floats_);
  }
  if (layout.is_half()) round_record(layout, record, host_row, rounding_.of(step.number, row.id));
}

void MachineRows::settle(MachineBlock block, std::int64_t boundary) {
  if (block == MachineBlock::kWhole) return;  // each row is where it belongs
  Step* const step = steps_.find(boundary - 1);
  if (step == nullptr) return;
  std::vector<std::size_t> due;
  for (std::size_t place = 0; place < step->rows.size(); ++place) {
    const UsedRow& row = step->rows[place];
    if (owner(row) == machine_ && row.is_shared() && is_urgent(row) == (block == MachineBlock::kUrgent))
      due.push_back(place);
  }
  default_pool().parallel_for(static_cast<std::int64_t>(due.size()), kSharedRowsPerTask,
                              [&](std::int64_t first, std::int64_t last) {
                                for (std::int64_t i = first; i < last; ++i)
                                  apply_gradients(*step, due[static_cast<std::size_t>(i)]);
                              });
  if (block != MachineBlock::kRest) return;
  steps_.drop_before(boundary);
}

}  // namespace frugal
