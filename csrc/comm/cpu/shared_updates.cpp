#include "comm/cpu/shared_updates.h"

#include <algorithm>

#include "table/row_adagrad.h"

namespace frugal::cpu {

void put_shared(const SharedPart& part, const SharedRows& rows, std::int32_t* to) {
  std::fill_n(to, part.rows, SharedPart::kNoRow);
  for (std::int32_t u = 0; u < *rows.used; ++u) {
    to[u] = static_cast<std::int32_t>(rows.ids[u]);
    if (rows.leave[u] != RowDestination::kGradient) continue;
    to[part.targets() + u] = static_cast<std::int32_t>(rows.target[u] / SharedPart::kTargetFloats);
    for (int e = 0; e < part.entries; ++e) to[part.counts(e) + u] = rows.offset[e][u + 1] - rows.offset[e][u];
  }
}

void apply_shared(const SharedPart& part, int rank, const std::vector<const std::int32_t*>& of_ranks,
                  const SharedRows& rows, const SharedMemory& memory, float learning_rate) {
  const RowAdagrad adagrad{learning_rate};
  struct Sender {
    int rank;
    const std::int32_t* counts;  // of its entries, in_fours(rows) apart
    const float* next;           // its next gradient
  };
  std::vector<Sender> senders;
  const auto applier_of = [&](std::int32_t id) {
    senders.clear();
    for (int other = 0; other < static_cast<int>(of_ranks.size()); ++other) {
      const std::int32_t* const ids = of_ranks[other];
      const std::int32_t* const at = std::lower_bound(ids, ids + part.rows, id);
      if (at == ids + part.rows || *at != id) continue;
      senders.push_back(
          {other, at + part.counts(0), memory.staging[other] + at[part.targets()] * SharedPart::kTargetFloats});
    }
    return senders[SharedPart::turn(id, static_cast<int>(senders.size()))].rank;
  };
  for (std::int32_t u = 0; u < *rows.used; ++u) {
    if (rows.leave[u] != RowDestination::kGradient || applier_of(static_cast<std::int32_t>(rows.ids[u])) != rank)
      continue;
    float* const row = memory.host_rows + rows.ids[u] * memory.stride;
    std::copy_n(memory.records + u * memory.stride, memory.dim + 1, row);
    for (int e = 0; e < part.entries; ++e) {
      for (const Sender& each : senders)
        for (std::int32_t k = 0; k < each.counts[part.counts(e) - part.counts(0)]; ++k)
          adagrad.accumulate(row[memory.dim], each.next + k * memory.stride, memory.dim);
      const float deviation = RowAdagrad::deviation(row[memory.dim]);
      for (Sender& each : senders)
        for (std::int32_t k = 0; k < each.counts[part.counts(e) - part.counts(0)]; ++k, each.next += memory.stride)
          adagrad.move(row, deviation, each.next, memory.dim);
    }
  }
}

}  // namespace frugal::cpu
