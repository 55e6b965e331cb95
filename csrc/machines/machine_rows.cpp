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
  for (UsedRow& row : step.rows) {
    row.owner = owners_.owner(row.id);
    if (row.owner == machine_) row.local = owners_.local(row.id);
  }
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
    if (row.owner != machine_) values = (step.value_at[u] = values) + layout().stride;
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
  step.source.resize(count);
  step.destination.resize(count);
  step.gradient.resize(count);
  step.early.resize(count);
  step.for_rows_of(machine_, [&](const UsedRow& row, std::int32_t place) {
    const auto u = static_cast<std::size_t>(place);
    step.source[u] = value(step, u);
    step.gradient[u] = row.is_shared() ? step.gradients.data() + step.gradient_at[u] : nullptr;
    step.destination[u] = row.is_shared() ? nullptr : step.source[u];
    step.early[u] = row.next != 0;
  });
}

void MachineRows::begin(std::int64_t number) {
  running_ = steps_.find(number);
  if (running_ == nullptr) throw std::logic_error("a step must be announced before it begins");
  make_room(*running_);
}

float* MachineRows::value(const Step& step, std::size_t u) const {
  const std::int64_t at = step.value_at[u];
  if (at >= 0) return const_cast<float*>(step.values.data()) + at;
  return own_row(step.rows[static_cast<std::size_t>(step.used[static_cast<std::size_t>(machine_)][u])]);
}

float* MachineRows::next_value(const UsedRow& row, std::int64_t boundary) {
  Step& step = *steps_.find(boundary);
  make_room(step);
  const std::int32_t u = step.place[static_cast<std::size_t>(machine_)][static_cast<std::size_t>(row.next_place)];
  return value(step, static_cast<std::size_t>(u));
}

template <typename F>
void MachineRows::for_results(MachineBlock block, std::int64_t boundary, int from, int to, F f) const {
  const bool urgent = block == MachineBlock::kUrgent;
  if (!urgent && block != MachineBlock::kRest) return;
  if (const Step* step = steps_.find(boundary - 1))
    step->for_rows_of(from, [&](const UsedRow& row, std::int32_t u) {
      if (urgent ? is_urgent(row, to) : row.owner == to && !is_urgent(row, to)) f(*step, row, u);
    });
}

template <typename F>
void MachineRows::for_values(MachineBlock block, std::int64_t boundary, int from, int to, F f) const {
  if (block != MachineBlock::kLate && block != MachineBlock::kAhead) return;
  if (const Step* step = steps_.find(block == MachineBlock::kAhead ? boundary + 1 : boundary))
    step->for_rows_of(to, [&](const UsedRow& row, std::int32_t u) {
      if (row.owner == from && way_of_value(row) == block) f(*step, row, u);
    });
}

std::int64_t MachineRows::block_floats(MachineBlock block, std::int64_t boundary, int from, int to) const {
  std::int64_t floats = 0;
  for_results(block, boundary, from, to, [&](const Step& step, const UsedRow& row, std::int32_t u) {
    if (sends_value(row, from, to)) floats += layout().record_floats();
    if (row.is_shared()) floats += gradients_of(step, from, u) * layout().dim;
  });
  for_values(block, boundary, from, to, [&](const Step&, const UsedRow&, std::int32_t) {
    floats += layout().record_floats();
  });
  return floats;
}

bool MachineRows::has_late(std::int64_t boundary) const {
  const Step* const step = steps_.find(boundary);
  return step && std::ranges::any_of(step->rows, [&](const UsedRow& row) {
    return (row.users & ~machine_bit(row.owner)) != 0 && way_of_value(row) == MachineBlock::kLate;
  });
}

void MachineRows::pack(MachineBlock block, std::int64_t boundary, int to, float* floats) const {
  const std::int64_t record = layout().record_floats(), dim = layout().dim;
  for_results(block, boundary, machine_, to, [&](const Step& step, const UsedRow& row, std::int32_t u) {
    const auto at = static_cast<std::size_t>(u);
    if (sends_value(row, machine_, to)) floats = std::copy_n(value(step, at), record, floats);
    if (!row.is_shared()) return;
    const float* from = step.gradients.data() + step.gradient_at[at];
    for (std::int64_t i = gradients_of(step, machine_, u); i > 0; --i, from += floats_.stride)
      floats = std::copy_n(from, dim, floats);
  });
  for_values(block, boundary, machine_, to, [&](const Step&, const UsedRow& row, std::int32_t) {
    floats = std::copy_n(own_row(row), record, floats);
  });
}

void MachineRows::land(MachineBlock block, std::int64_t boundary, int from, const float* floats) {
  const std::int64_t record = layout().record_floats();
  const auto take = [&](float* to) {
    std::copy_n(floats, record, to);
    floats += record;
  };
  for_results(block, boundary, from, machine_, [&](const Step& known, const UsedRow& row, std::int32_t u) {
    if (sends_value(row, from, machine_)) take(row.owner == machine_ ? own_row(row) : next_value(row, boundary));
    if (!row.is_shared()) return;
    Step& step = const_cast<Step&>(known);  // of steps_
    std::vector<float>& landed = step.landed[static_cast<std::size_t>(from)];
    const std::int64_t count = gradients_of(step, from, u) * layout().dim;
    step.landed_at[static_cast<std::size_t>(from)][static_cast<std::size_t>(u)] =
        static_cast<std::int64_t>(landed.size());
    landed.insert(landed.end(), floats, floats + count);
    floats += count;
  });
  for_values(block, boundary, from, machine_, [&](const Step& known, const UsedRow&, std::int32_t u) {
    make_room(const_cast<Step&>(known));
    take(value(known, static_cast<std::size_t>(u)));
  });
}

// A row of a step whose gradients are to be applied.
struct MachineRows::Due {
  std::size_t place;
  const float* before;  // the record that they change
  float* record;        // and where it then lies
};

void MachineRows::apply_gradients(Step& step, const Due& due) {
  const UsedRow& row = step.rows[due.place];
  const RowLayout& layout = own_.layout();
  std::vector<float> wide;
  float* record = due.record;
  if (layout.is_half()) {
    wide.resize(static_cast<std::size_t>(floats_.stride));
    expand_record(layout, due.before, record = wide.data());
  } else if (due.before != record) {
    std::copy_n(due.before, layout.record_floats(), record);
  }
  std::vector<std::int64_t> taken(step.used.size(), 0);  // gradients of entries that are done, by machine
  std::vector<const float*> gradients;
  for (std::size_t entry = 0; entry < kMostMachineEntries; ++entry) {
    gradients.clear();
    for (Users left = row.users; left != 0; left &= left - 1) {
      const auto m = static_cast<std::size_t>(first_of(left));
      const auto u = static_cast<std::size_t>(step.place[m][due.place]);
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
  if (layout.is_half()) round_record(layout, record, due.record, rounding_.of(step.number, row.id));
}

void MachineRows::apply(MachineBlock block, std::int64_t boundary) {
  if (block == MachineBlock::kWhole) return;  // each row is where it belongs
  Step* const step = steps_.find(boundary - 1);
  if (step == nullptr) return;
  const bool urgent = block == MachineBlock::kUrgent;
  const std::vector<std::int32_t>& own_place = step->place[static_cast<std::size_t>(machine_)];
  std::vector<Due> due;
  for (std::size_t place = 0; place < step->rows.size(); ++place) {
    const UsedRow& row = step->rows[place];
    if (row.owner == machine_) {
      if (row.is_shared() && is_urgent(row, machine_) == urgent) due.push_back({place, own_row(row), own_row(row)});
    } else if (urgent && is_urgent(row, machine_)) {
      const std::int32_t u = own_place[place];
      if (u < 0 && !row.is_shared()) continue;  // the value has landed
      float* const next = next_value(row, boundary);
      const float* const before = u < 0 ? next : value(*step, static_cast<std::size_t>(u));
      if (row.is_shared()) {
        due.push_back({place, before, next});
      } else {
        std::copy_n(before, layout().record_floats(), next);
      }
    }
  }
  default_pool()->parallel_for(static_cast<std::int64_t>(due.size()), kSharedRowsPerTask,
                              [&](std::int64_t first, std::int64_t last) {
                                for (std::int64_t i = first; i < last; ++i)
                                  apply_gradients(*step, due[static_cast<std::size_t>(i)]);
                              });
  if (!urgent) steps_.drop_before(boundary);
}

}  // namespace frugal
