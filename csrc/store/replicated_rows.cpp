#include "store/replicated_rows.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "comm/cpu/replica_updates.h"
#include "engine/engine_client.h"

namespace frugal {

SummedRows::SummedRows(HostTable& replica, const ReplicaPart& part) : DirectRows(replica), part_(part) {
  if (part.entries < 1 || part.entries > kMaxEntries || part.dim != replica.layout().dim)
    throw std::invalid_argument("a replica has the rows of its table");
}

void SummedRows::announce(std::int64_t step, std::span<const std::int64_t> rows,
                          std::span<const std::int32_t> occurrences) {
  if (static_cast<std::int64_t>(rows.size()) > part_.rows || occurrences.size() != part_.entries * rows.size())
    throw std::invalid_argument("a step has too many rows, or not as many occurrences as rows");
  DirectRows::announce(step, rows, occurrences);
  occurrences_.emplace_back(occurrences.begin(), occurrences.end());
}

void SummedRows::begin(std::int64_t step) {
  DirectRows::begin(step);
  const std::vector<std::int32_t> occurrences = std::move(occurrences_.front());
  occurrences_.pop_front();
  const std::size_t count = rows().size();
  nowhere_.assign(count, nullptr);
  gradient_.resize(count);
  std::int32_t places = 0;
  for (int e = 0; e < part_.entries; ++e) {
    offset_[e].assign(1, 0);
    order_[e].clear();
  }
  std::vector<std::int64_t> first(count);
  for (std::size_t u = 0; u < count; ++u) {
    first[u] = places;
    for (int e = 0; e < part_.entries; ++e) {
      for (std::int32_t i = 0; i < occurrences[e * count + u]; ++i) order_[e].push_back(places++);
      offset_[e].push_back(static_cast<std::int32_t>(order_[e].size()));
    }
  }
  const std::int64_t stride = layout().stride;
  gradients_.resize(std::max(gradients_.size(), static_cast<std::size_t>(places * stride)));
  for (std::size_t u = 0; u < count; ++u) gradient_[u] = gradients_.data() + first[u] * stride;
}

void SummedRows::put_part(float* to) {
  EntryGradients entries[kMaxEntries];
  for (int e = 0; e < part_.entries; ++e)
    entries[e] = {gradients_.data(), layout().stride, offset_[e].data(), order_[e].data()};
  cpu::put_sums(part_, rows(), {entries, static_cast<std::size_t>(part_.entries)}, to);
  ++steps_run_;
  DirectRows::end();
}

ReplicatedRows::ReplicatedRows(HostTable& host, HostTable& replica, HostExchange& exchange, const ReplicaPart& part,
                               float learning_rate)
    : SummedRows(replica, part), host_(host), replica_(replica), exchange_(exchange), learning_rate_(learning_rate) {
  if (host.rows() != replica.rows() || host.layout().stride != replica.layout().stride)
    throw std::invalid_argument("a replica has the rows of its table");
}

void ReplicatedRows::begin(std::int64_t step) {
  if (steps_run() == 0 && &host_ != &replica_) std::memcpy(replica_.data(), host_.data(), host_.bytes());
  SummedRows::begin(step);
}

void ReplicatedRows::end() {
  put_part(exchange_.next_part());
  if (!exchange_.barrier()) throw EngineError(exchange_.sentence());
  std::vector<const float*> of_ranks;
  for (int rank = 0; rank < exchange_.ranks(); ++rank) of_ranks.push_back(exchange_.part_of(rank));
  cpu::apply_sums(part_, of_ranks, replica_.data(), layout().stride, learning_rate_);
}

}  // namespace frugal
