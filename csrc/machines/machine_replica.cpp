#include "machines/machine_replica.h"

#include <algorithm>
#include <stdexcept>

#include "comm/cpu/replica_updates.h"

namespace frugal {

MachineReplica::MachineReplica(HostTable& replica, const ReplicaPart& part, int machine, int machines,
                               float learning_rate)
    : SummedRows(replica, part),
      replica_(replica),
      machine_(machine),
      machines_(machines),
      learning_rate_(learning_rate),
      urgent_parts_(static_cast<std::size_t>(machines)),
      rest_parts_(urgent_parts_.size()) {
  if (machine < 0 || machine >= machines || machines > kMostMachines)
    throw std::invalid_argument("there is no such machine");
  for (std::vector<float>& each : sums_) each.resize(static_cast<std::size_t>(part.floats()));
  planned_.assign(static_cast<std::size_t>(replica.rows()), {.fresh = all()});
  fresh_.assign(planned_.size(), all());
}

void MachineReplica::announce(std::int64_t, std::span<const std::int64_t>, std::span<const std::int32_t>) {
  throw std::logic_error("the rows of all machines must be announced together");
}

void MachineReplica::announce(std::int64_t number, std::span<const MachineUse> of_machines) {
  if (of_machines.size() != urgent_parts_.size()) throw std::invalid_argument("each machine has rows in each step");
  const MachineUse& own = of_machines[static_cast<std::size_t>(machine_)];
  SummedRows::announce(number, own.rows, own.occurrences);
  Step& step = steps_.announce(number, of_machines, replica_.rows(), static_cast<std::size_t>(part_.entries));
  step.transfers.clear();
  for (const UsedRow& row : step.rows) {
    Planned& planned = planned_[static_cast<std::size_t>(row.id)];
    if (const Users lacking = row.users & ~planned.fresh) {
      const MachineBlock way = planned.last != number - 1 ? MachineBlock::kAhead
                               : planned.shared           ? MachineBlock::kLate
                                                          : MachineBlock::kUrgent;
      step.transfers.push_back({row.id, first_of(planned.fresh), lacking, way});
    }
    planned = {row.users, number, row.is_shared()};
  }
}

void MachineReplica::end() {
  const std::int64_t boundary = running() + 1;
  put_part(sums(boundary).data());
  Places alone;  // which nobody waits for
  steps_.find(boundary - 1)->for_rows_of(machine_, [&](const UsedRow& row, std::int32_t u) {
    if (!row.is_shared()) alone.push_back(u);
  });
  std::vector<float>& own = urgent_parts_[static_cast<std::size_t>(machine_)];
  take_own(alone, boundary, own);
  cpu::apply_sums(part_, {own.data()}, replica_.data(), layout().stride, learning_rate_);
}

MachineReplica::Places MachineReplica::summed(MachineBlock block, std::int64_t boundary, int from, int to) const {
  Places found;
  if (block != MachineBlock::kUrgent && block != MachineBlock::kRest) return found;
  if (const Step* step = steps_.find(boundary - 1))
    step->for_rows_of(from, [&](const UsedRow& row, std::int32_t u) {
      if (row.is_shared() && (row.users & machine_bit(to)) && is_urgent(row, to) == (block == MachineBlock::kUrgent))
        found.push_back(u);
    });
  return found;
}

std::vector<std::int64_t> MachineReplica::values(MachineBlock block, std::int64_t boundary, int from, int to) const {
  std::vector<std::int64_t> found;
  if (block == MachineBlock::kRest) return found;
  if (block == MachineBlock::kWhole) {
    for (std::size_t row = 0; row < fresh_.size(); ++row)
      if (!(fresh_[row] & machine_bit(to)) && first_of(fresh_[row]) == from)
        found.push_back(static_cast<std::int64_t>(row));
    return found;
  }
  if (const Step* step = steps_.find(block == MachineBlock::kAhead ? boundary + 1 : boundary))
    for (const Transfer& each : step->transfers)
      if (each.from == from && (each.to & machine_bit(to)) && each.way == block) found.push_back(each.row);
  return found;
}

std::int64_t MachineReplica::block_floats(MachineBlock block, std::int64_t boundary, int from, int to) const {
  const std::size_t sums = summed(block, boundary, from, to).size() * static_cast<std::size_t>(part_.entries);
  return static_cast<std::int64_t>(sums + values(block, boundary, from, to).size()) * record_floats();
}

bool MachineReplica::has_late(std::int64_t boundary) const {
  const Step* const step = steps_.find(boundary);
  const auto is_late = [](const Transfer& each) { return each.way == MachineBlock::kLate; };
  return step && std::ranges::any_of(step->transfers, is_late);
}

void MachineReplica::pack(MachineBlock block, std::int64_t boundary, int to, float* floats) const {
  const float* const own = sums(boundary).data();
  for (const std::int32_t u : summed(block, boundary, machine_, to))
    for (int e = 0; e < part_.entries; ++e) {
      *floats++ = own[part_.squares(e) + u];
      floats = std::copy_n(own + part_.sum(e, u), part_.dim, floats);
    }
  for (const std::int64_t row : values(block, boundary, machine_, to))
    floats = std::copy_n(replica_.row(row), record_floats(), floats);
}

void MachineReplica::put(const Places& places, std::int64_t boundary, int from, std::vector<float>& part) const {
  const auto floats = static_cast<std::size_t>(part_.sum(part_.entries - 1, static_cast<std::int64_t>(places.size())));
  part.resize(std::max(part.size(), floats));
  auto* const ids = reinterpret_cast<std::int32_t*>(part.data());
  std::fill_n(ids, part_.rows, ReplicaPart::kNoRow);
  const Step* const step = steps_.find(boundary - 1);
  for (std::size_t i = 0; i < places.size(); ++i) {
    const std::int32_t row = step->used[static_cast<std::size_t>(from)][static_cast<std::size_t>(places[i])];
    ids[i] = static_cast<std::int32_t>(step->rows[static_cast<std::size_t>(row)].id);
  }
}

void MachineReplica::take_own(const Places& places, std::int64_t boundary, std::vector<float>& part) const {
  put(places, boundary, machine_, part);
  const float* const own = sums(boundary).data();
  for (std::size_t i = 0; i < places.size(); ++i)
    for (int e = 0; e < part_.entries; ++e) {
      part[static_cast<std::size_t>(part_.squares(e)) + i] = own[part_.squares(e) + places[i]];
      std::copy_n(own + part_.sum(e, places[i]), part_.dim,
                  part.data() + part_.sum(e, static_cast<std::int64_t>(i)));
    }
}

void MachineReplica::land(MachineBlock block, std::int64_t boundary, int from, const float* floats) {
  const Places places = summed(block, boundary, from, machine_);
  std::vector<float>& part = parts(block)[static_cast<std::size_t>(from)];
  put(places, boundary, from, part);
  for (std::size_t i = 0; i < places.size(); ++i)
    for (int e = 0; e < part_.entries; ++e) {
      part[static_cast<std::size_t>(part_.squares(e)) + i] = *floats++;
      std::copy_n(floats, part_.dim, part.data() + part_.sum(e, static_cast<std::int64_t>(i)));
      floats += part_.dim;
    }
  for (const std::int64_t row : values(block, boundary, from, machine_)) {
    std::copy_n(floats, record_floats(), replica_.row(row));
    floats += record_floats();
  }
}

void MachineReplica::apply(MachineBlock block, std::int64_t boundary) {
  if (block == MachineBlock::kWhole) return fresh_.assign(fresh_.size(), all());
  const Step* const step = steps_.find(boundary - 1);
  if (step == nullptr) return;
  if (block == MachineBlock::kUrgent)
    for (const UsedRow& row : step->rows) fresh_[static_cast<std::size_t>(row.id)] = row.users;
  std::vector<std::vector<float>>& of_machines = parts(block);
  take_own(summed(block, boundary, machine_, machine_), boundary, of_machines[static_cast<std::size_t>(machine_)]);
  std::vector<const float*> parts;
  for (const std::vector<float>& each : of_machines) parts.push_back(each.data());
  cpu::apply_sums(part_, parts, replica_.data(), layout().stride, learning_rate_);
  if (block == MachineBlock::kRest) steps_.drop_before(boundary);
}

}  // namespace frugal
