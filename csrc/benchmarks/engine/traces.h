// Which rows the steps of a DGL-KE run use: 1000 positives and 1000 shared negatives a step, as on FB15k and on
// Freebase.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace frugal::benchmarks {

using RowTrace = std::vector<std::vector<std::int64_t>>;  // [step]: ascending, distinct

inline constexpr int kPositives = 1000, kNegatives = 1000;

inline void finish_step(RowTrace& trace, std::vector<std::int64_t> rows) {
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  trace.push_back(std::move(rows));
}

// Edges of a real graph from a file of int32 pairs (head, tail), drawn without replacement; negatives uniform.
inline RowTrace trace_of_edges(const std::string& path, std::int64_t entities, std::int64_t steps) {
  std::FILE* file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) throw std::runtime_error("cannot open " + path);
  std::vector<std::int32_t> pairs;
  std::int32_t pair[2];
  while (std::fread(pair, sizeof pair, 1, file) == 1) pairs.insert(pairs.end(), pair, pair + 2);
  std::fclose(file);
  const std::size_t edges = pairs.size() / 2;
  if (edges < kPositives) throw std::runtime_error(path + " holds too few edges");
  std::mt19937_64 random(1);
  std::vector<std::size_t> order(edges);
  for (std::size_t i = 0; i < edges; ++i) order[i] = i;
  std::size_t next = edges;
  RowTrace trace;
  for (std::int64_t s = 0; s < steps; ++s) {
    std::vector<std::int64_t> rows;
    for (int i = 0; i < kPositives; ++i) {
      if (next == edges) {
        std::shuffle(order.begin(), order.end(), random);
        next = 0;
      }
      rows.push_back(pairs[2 * order[next]]);
      rows.push_back(pairs[2 * order[next++] + 1]);
    }
    for (int i = 0; i < kNegatives; ++i)
      rows.push_back(static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(entities)));
    finish_step(trace, std::move(rows));
  }
  return trace;
}

// The row that is the `rank`-th most frequent: hot rows are scattered over the table.
inline std::int64_t zipf_row(std::uint64_t rank, std::int64_t entities) {
  return static_cast<std::int64_t>((rank * 2654435761ull) % static_cast<std::uint64_t>(entities));
}

// Positives by a zipf law with exponent a < 1 (share of the k most frequent of n rows: (k/n)^(1-a); a = 0.8 gives the
// top percent 40 % of the positives' accesses, as large graphs have), negatives uniform.
// ranks: whose batches a step joins.
inline RowTrace zipf_trace(std::int64_t entities, double exponent, std::int64_t steps, int ranks = 1,
                           unsigned seed = 2) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> uniform;
  RowTrace trace;
  for (std::int64_t s = 0; s < steps; ++s) {
    std::vector<std::int64_t> rows;
    for (int i = 0; i < 2 * kPositives * ranks; ++i) {
      const double place = std::pow(uniform(random), 1 / (1 - exponent)) * static_cast<double>(entities);
      const auto rank = std::min(static_cast<std::uint64_t>(place), static_cast<std::uint64_t>(entities - 1));
      rows.push_back(zipf_row(rank, entities));
    }
    for (int i = 0; i < kNegatives * ranks; ++i)
      rows.push_back(static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(entities)));
    finish_step(trace, std::move(rows));
  }
  return trace;
}

}  // namespace frugal::benchmarks
