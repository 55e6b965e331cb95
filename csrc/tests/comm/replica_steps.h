// Steps of ranks that have a replica of one table each, and what plain loops make of them.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <vector>

#include "comm/replica_part.h"

namespace frugal::replica_steps {

inline constexpr float kRate = 0.25f;
inline constexpr std::int64_t kTableRows = 17;

inline std::int64_t stride(const ReplicaPart& part) { return (part.dim + 4) / 4 * 4; }

inline std::vector<float> first_table(const ReplicaPart& part) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  std::vector<float> table((kTableRows + 1) * stride(part));
  for (float& value : table) value = std::abs(normal(random));  // states are not negative
  return table;
}

// The gradients of a rank in a step: 1 to part.rows rows of the table, in ascending order, with up to 80 occurrences.
struct RankStep {
  std::vector<std::int64_t> ids;  // of the rows that there are
  std::vector<float> values, squares;
  std::vector<std::int32_t> offset[kMaxEntries], order[kMaxEntries];
  EntryGradients entries[kMaxEntries];

  RankStep(const ReplicaPart& part, int rank, int step) {
    std::mt19937 random(1000u * rank + step + 7);
    std::vector<std::int64_t> all(kTableRows);
    for (std::int64_t id = 0; id < kTableRows; ++id) all[id] = id;
    std::shuffle(all.begin(), all.end(), random);
    ids.assign(all.begin(), all.begin() + 1 + random() % part.rows);
    std::sort(ids.begin(), ids.end());
    std::int32_t count = 0;
    for (int e = 0; e < part.entries; ++e) {
      offset[e] = {0};
      for (std::size_t u = 0; u < ids.size(); ++u) {
        for (int left = ids[u] % 5 == 0 ? 20 + random() % 60 : 1 + random() % 3; left > 0; --left)
          order[e].push_back(count++);
        offset[e].push_back(static_cast<std::int32_t>(order[e].size()));
      }
      offset[e].resize(part.rows + 1, offset[e].back());  // rows that pad have none
      std::shuffle(order[e].begin(), order[e].end(), random);
    }
    std::normal_distribution<float> normal;
    values.resize(count * part.dim);
    for (float& value : values) value = normal(random);
    for (std::int32_t i = 0; i < count; ++i) squares.push_back(std::abs(normal(random)));
    for (int e = 0; e < part.entries; ++e)
      entries[e] = {values.data(), part.dim, offset[e].data(), order[e].data(), squares.data()};
  }
};

// The table that all ranks should have after so many steps.
inline std::vector<float> by_plain_loops(int ranks, const ReplicaPart& part, int steps) {
  std::vector<float> table = first_table(part);
  for (int step = 0; step < steps; ++step)
    for (int e = 0; e < part.entries; ++e) {
      struct Sum {
        std::vector<float> values;
        float square = 0.0f;
      };
      std::map<std::int64_t, std::vector<Sum>> sums;  // of each row, in rank order
      for (int rank = 0; rank < ranks; ++rank) {
        const RankStep own(part, rank, step);
        for (std::size_t u = 0; u < own.ids.size(); ++u) {
          Sum sum{std::vector<float>(part.dim)};
          for (std::int32_t i = own.offset[e][u]; i < own.offset[e][u + 1]; ++i) {
            sum.square += own.squares[own.order[e][i]];
            for (std::int64_t k = 0; k < part.dim; ++k) sum.values[k] += own.values[own.order[e][i] * part.dim + k];
          }
          sums[own.ids[u]].push_back(sum);
        }
      }
      for (const auto& [id, of_ranks] : sums) {
        float* const row = &table[id * stride(part)];
        for (const Sum& sum : of_ranks) row[part.dim] += sum.square;
        const float deviation = std::sqrt(row[part.dim]) + 1e-10f;
        for (const Sum& sum : of_ranks)
          for (std::int64_t k = 0; k < part.dim; ++k) row[k] += -kRate * sum.values[k] / deviation;
      }
    }
  return table;
}

}  // namespace frugal::replica_steps
