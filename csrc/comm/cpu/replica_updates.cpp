#include "comm/cpu/replica_updates.h"

#include <algorithm>

#include "base/parallel/callers_threads.h"
#include "table/row_adagrad.h"

namespace frugal::cpu {
namespace {

constexpr std::int64_t kSumsPerTask = 16;  // below this a second thread costs more than it saves

std::span<const std::int32_t> ids_of(const ReplicaPart& part, const float* from) {
  const auto* const ids = reinterpret_cast<const std::int32_t*>(from);
  return {ids, std::lower_bound(ids, ids + part.rows, ReplicaPart::kNoRow)};
}

}  // namespace

void put_sums(const ReplicaPart& part, std::span<const std::int64_t> ids, std::span<const EntryGradients> entries,
              float* to) {
  auto* const known = reinterpret_cast<std::int32_t*>(to);
  std::copy(ids.begin(), ids.end(), known);
  std::fill(known + ids.size(), known + part.rows, ReplicaPart::kNoRow);
  run_ranges(static_cast<std::int64_t>(ids.size()), kSumsPerTask, [&](std::int64_t begin, std::int64_t end) {
    for (int e = 0; e < part.entries; ++e) {
      const EntryGradients& entry = entries[e];
      for (std::int64_t u = begin; u < end; ++u) {
        float* __restrict const sum = to + part.sum(e, u);
        float square = 0.0f;
        std::fill_n(sum, part.dim, 0.0f);
        for (std::int64_t i = entry.offset[u]; i < entry.offset[u + 1]; ++i) {
          const float* __restrict const x = entry.occurrence(i);
          square += entry.squares ? entry.squares[entry.place(i)] : mean_square(x, part.dim);
          for (std::int64_t k = 0; k < part.dim; ++k) sum[k] += x[k];
        }
        to[part.squares(e) + u] = square;
      }
    }
  });
}

void apply_sums(const ReplicaPart& part, const std::vector<const float*>& of_ranks, float* rows, std::int64_t stride,
                float learning_rate) {
  struct Sums {
    const float* of_rank;
    std::int64_t row;
  };
  const RowAdagrad adagrad{learning_rate};
  const auto ranks = static_cast<int>(of_ranks.size());
  std::vector<std::span<const std::int32_t>> ids;
  for (const float* each : of_ranks) ids.push_back(ids_of(part, each));
  // A row is the work of the first rank that has it.
  const auto update = [&](int first, std::int64_t u, std::vector<Sums>& found) {
    const std::int32_t id = ids[first][u];
    found.clear();
    for (int rank = 0; rank < ranks; ++rank) {
      const auto at = std::lower_bound(ids[rank].begin(), ids[rank].end(), id);
      if (at == ids[rank].end() || *at != id) continue;
      if (rank < first) return;
      found.push_back({of_ranks[rank], at - ids[rank].begin()});
    }
    float* const record = rows + id * stride;
    float& state = record[part.dim];
    for (int e = 0; e < part.entries; ++e) {
      for (const Sums& each : found) state += each.of_rank[part.squares(e) + each.row];
      const float deviation = RowAdagrad::deviation(state);
      for (const Sums& each : found) adagrad.move(record, deviation, each.of_rank + part.sum(e, each.row), part.dim);
    }
  };
  for (int first = 0; first < ranks; ++first)
    run_ranges(static_cast<std::int64_t>(ids[first].size()), kSumsPerTask, [&](std::int64_t begin, std::int64_t end) {
      std::vector<Sums> found;
      for (std::int64_t u = begin; u < end; ++u) update(first, u, found);
    });
}

}  // namespace frugal::cpu
