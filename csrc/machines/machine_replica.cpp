#include "machines/machine_replica.h"

#include <algorithm>
#include <stdexcept>

#include "replicas/cpu/replica_updates.h"

namespace frugal {

MachineReplica::MachineReplica(HostTable& replica, const ReplicaPart& part, int machine, int machines,
                               float learning_rate)
    : SummedRows(replica, part),
      replica_(replica),
      machine_(machine),
      machines_(machines),
      learning_rate_(learning_rate),
      sums_(static_cast<std::size_t>(part.floats())),
      rest_(sums_.size()),
      parts_(static_cast<std::size_t>(machines)) {
  if (machine < 0 || machine >= machines || machines > kMostMachines)
    throw std::invalid_argument("there is no such machine");
  for (std::vector<float>& each : parts_) each.resize(static_cast<std::size_t>(part.floats()));
}

void MachineReplica::announce(std::int64_t, std::span<const std::int64_t>, std::span<const std::int32_t>) {
  throw std::logic_error("the rows of all machines must be announced together");
}

void MachineReplica::announce(std::int64_t step, std::span<const MachineUse> of_machines) {
  if (of_machines.size() != parts_.size()) throw std::invalid_argument("each machine has rows in each step");
  const MachineUse& own = of_machines[static_cast<std::size_t>(machine_)];
  SummedRows::announce(step, own.rows, own.occurrences);
  if (steps_.empty()) first_ = step;
  std::vector<Rows>& rows = steps_.emplace_back();
  for (const MachineUse& each : of_machines) rows.emplace_back(each.rows.begin(), each.rows.end());
}

void MachineReplica::end() { put_part(sums_.data()); }

const std::vector<MachineReplica::Rows>* MachineReplica::find(std::int64_t step) const {
  const std::int64_t place = step - first_;
  return place >= 0 && place < static_cast<std::int64_t>(steps_.size()) ? &steps_[static_cast<std::size_t>(place)]
                                                                       : nullptr;
}

std::vector<std::int32_t> MachineReplica::places(MachineBlock block, std::int64_t boundary, int from, int to) const {
  std::vector<std::int32_t> found;
  const std::vector<Rows>* const step = find(boundary - 1);
  if (step == nullptr || (block != MachineBlock::kUrgent && block != MachineBlock::kRest)) return found;
  const std::vector<Rows>* const next = find(boundary);
  static const Rows none;
  const Rows& rows = (*step)[static_cast<std::size_t>(from)];
  const Rows& needed = next ? (*next)[static_cast<std::size_t>(to)] : none;
  auto at = needed.begin();
  for (std::size_t u = 0; u < rows.size(); ++u) {
    while (at != needed.end() && *at < rows[u]) ++at;
    const bool urgent = at != needed.end() && *at == rows[u];
    if (urgent == (block == MachineBlock::kUrgent)) found.push_back(static_cast<std::int32_t>(u));
  }
  return found;
}

std::int64_t MachineReplica::block_floats(MachineBlock block, std::int64_t boundary, int from, int to) const {
  return static_cast<std::int64_t>(places(block, boundary, from, to).size()) * part_.entries * (1 + part_.dim);
}

void MachineReplica::pack(MachineBlock block, std::int64_t boundary, int to, float* floats) const {
  for (const std::int32_t u : places(block, boundary, machine_, to))
    for (int e = 0; e < part_.entries; ++e) {
      *floats++ = sums_[static_cast<std::size_t>(part_.squares(e) + u)];
      floats = std::copy_n(sums_.data() + part_.sum(e, u), part_.dim, floats);
    }
}

// Names the rows in a part.
void MachineReplica::put(const std::vector<std::int32_t>& places, std::int64_t boundary, int from,
                         std::vector<float>& part) const {
  auto* const ids = reinterpret_cast<std::int32_t*>(part.data());
  const std::vector<Rows>* const step = find(boundary - 1);
  std::fill_n(ids, part_.rows, ReplicaPart::kNoRow);
  for (std::size_t i = 0; i < places.size(); ++i)
    ids[i] = static_cast<std::int32_t>((*step)[static_cast<std::size_t>(from)][static_cast<std::size_t>(places[i])]);
}

void MachineReplica::land(MachineBlock block, std::int64_t boundary, int from, const float* floats) {
  const std::vector<std::int32_t> places = this->places(block, boundary, from, machine_);
  std::vector<float>& part = parts_[static_cast<std::size_t>(from)];
  put(places, boundary, from, part);
  for (std::size_t i = 0; i < places.size(); ++i)
    for (int e = 0; e < part_.entries; ++e) {
      part[static_cast<std::size_t>(part_.squares(e)) + i] = *floats++;
      std::copy_n(floats, part_.dim, part.data() + part_.sum(e, static_cast<std::int64_t>(i)));
      floats += part_.dim;
    }
}

void MachineReplica::take_own(MachineBlock block, std::int64_t boundary, std::vector<float>& part) const {
  const std::vector<std::int32_t> places = this->places(block, boundary, machine_, machine_);
  put(places, boundary, machine_, part);
  for (std::size_t i = 0; i < places.size(); ++i)
    for (int e = 0; e < part_.entries; ++e) {
      part[static_cast<std::size_t>(part_.squares(e)) + i] =
          sums_[static_cast<std::size_t>(part_.squares(e) + places[i])];
      std::copy_n(sums_.data() + part_.sum(e, places[i]), part_.dim,
                  part.data() + part_.sum(e, static_cast<std::int64_t>(i)));
    }
}

void MachineReplica::settle(MachineBlock block, std::int64_t boundary) {
  if (find(boundary - 1) == nullptr) return;
  std::vector<float>& own = parts_[static_cast<std::size_t>(machine_)];
  if (block == MachineBlock::kUrgent) {
    take_own(block, boundary, own);
    take_own(MachineBlock::kRest, boundary, rest_);  // before the next step puts its own sums in their place
  } else {
    own.swap(rest_);
  }
  std::vector<const float*> parts;
  for (const std::vector<float>& each : parts_) parts.push_back(each.data());
  cpu::apply_sums(part_, parts, replica_.data(), layout().stride, learning_rate_);
  if (block != MachineBlock::kRest) return;
  while (!steps_.empty() && first_ < boundary) {
    steps_.pop_front();
    ++first_;
  }
}

}  // namespace frugal
