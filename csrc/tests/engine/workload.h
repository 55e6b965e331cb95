// Random workloads and the plain oracle that the engine's tests compare with.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "table/row_update.h"
#include "tests/engine/reference_executor.h"

namespace frugal::testing {

// Differs by step, rank, entry, row and position, and depends on the value: order, staleness and loss all change
// numbers.
inline void test_gradient(std::int64_t step, int rank, int entry, std::int64_t row, int k, const float* value,
                          float* gradient, std::int64_t dim) {
  const std::uint64_t seed = static_cast<std::uint64_t>(step) * 31 + static_cast<std::uint64_t>(rank) * 17 +
                             static_cast<std::uint64_t>(entry) * 13 + static_cast<std::uint64_t>(row) * 101 +
                             static_cast<std::uint64_t>(k) * 7;
  for (std::int64_t i = 0; i < dim; ++i)
    gradient[i] = static_cast<float>((seed + static_cast<std::uint64_t>(i) * 5) % 97) / 97.0f - 0.4f + 0.3f * value[i];
}

enum class Caching { kRandom, kStatic, kLfu };  // RandomAdmission, or a policy of the package

struct Shape {
  int ranks = 2, lookahead = 3, flush_threads = 2, entries = 2;
  std::int64_t rows = 24, dim = 5, steps = 40;
  int batch = 6;           // occurrences per rank and step, at most
  bool skewed = true;      // zipf-like, else uniform
  std::int64_t slots = 4;  // of each rank's cache
  Caching caching = Caching::kRandom;
  double reject = 0.3;  // of kRandom
  FlushMode mode = FlushMode::kP2F;
  std::int64_t staging_bytes = 0;
  int horizon = 0;
  unsigned seed = 0;
};

inline Shape random_shape(unsigned seed) {
  std::mt19937 random(seed);
  const auto pick = [&](std::initializer_list<std::int64_t> of) { return *(of.begin() + random() % of.size()); };
  Shape shape;
  shape.seed = seed;
  shape.ranks = static_cast<int>(pick({1, 1, 2, 3, 4, 8}));
  shape.lookahead = static_cast<int>(pick({1, 2, 3, 6, 10, 60}));
  shape.flush_threads = static_cast<int>(pick({1, 2, 4, 16}));
  shape.rows = pick({6, 24, 200});
  shape.batch = static_cast<int>(pick({1, 6, 40}));
  shape.slots = pick({0, 1, 4, shape.rows});
  shape.skewed = random() % 3 != 0;
  shape.dim = pick({1, 5, 33});
  shape.horizon = static_cast<int>(random() % static_cast<unsigned>(shape.lookahead));
  return shape;
}

using Trace = std::vector<std::vector<StepWork>>;  // [step][rank]

inline Trace random_trace(const Shape& shape) {
  std::mt19937_64 random(shape.seed);
  const auto row = [&]() -> std::int64_t {
    if (!shape.skewed || random() % 10 < 4)
      return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(shape.rows));
    const double u = (static_cast<double>(random() % 1000000) + 1) / 1000001;
    return std::min<std::int64_t>(shape.rows - 1, static_cast<std::int64_t>(std::pow(u, -1 / 0.7)) - 1);
  };
  Trace trace(static_cast<std::size_t>(shape.steps));
  for (auto& step : trace) {
    step.resize(static_cast<std::size_t>(shape.ranks));
    for (StepWork& work : step) {
      std::map<std::int64_t, std::vector<std::int32_t>> counts;
      const auto size = static_cast<int>(random() % static_cast<std::uint64_t>(shape.batch + 1));
      for (int i = 0; i < size; ++i) {
        auto& of_row = counts[row()];
        of_row.resize(static_cast<std::size_t>(shape.entries));
        ++of_row[random() % static_cast<std::uint64_t>(shape.entries)];
      }
      work.occurrences.resize(counts.size() * static_cast<std::size_t>(shape.entries));
      std::size_t i = 0;
      for (const auto& [id, per_entry] : counts) {
        work.rows.push_back(id);
        for (std::size_t e = 0; e < per_entry.size(); ++e) work.occurrences[e * counts.size() + i] = per_entry[e];
        ++i;
      }
    }
  }
  return trace;
}

inline std::vector<float> initial_table(const Shape& shape, const RowLayout& layout) {
  std::vector<float> table(static_cast<std::size_t>(shape.rows * layout.stride), 0.0f);
  for (std::int64_t r = 0; r < shape.rows; ++r)
    for (std::int64_t i = 0; i < shape.dim; ++i)
      table[static_cast<std::size_t>(r * layout.stride + i)] = static_cast<float>((r * 7 + i * 3) % 11) / 11.0f - 0.5f;
  return table;
}

// Everything in order, by plain loops: for each step the rows that are read, as of its beginning, and the final table.
// Entries are the concatenation of the ranks' entries in rank order.
struct Oracle {
  std::vector<std::map<std::int64_t, std::vector<float>>> before;  // [step][row]: dim floats and state
  std::vector<float> table;

  Oracle(const Shape& shape, const Trace& trace, const RowLayout& layout, const RowUpdate& update)
      : Oracle(shape, trace, layout, update, initial_table(shape, layout)) {}

  Oracle(const Shape& shape, const Trace& trace, const RowLayout& layout, const RowUpdate& update,
         std::vector<float> start_table)
      : table(std::move(start_table)) {
    const auto record = [&](std::int64_t row) { return table.data() + row * layout.stride; };
    for (std::int64_t s = 0; s < static_cast<std::int64_t>(trace.size()); ++s) {
      std::map<std::int64_t, std::vector<float>> start;
      const auto& step = trace[static_cast<std::size_t>(s)];
      for (const StepWork& work : step)
        for (const std::int64_t row : work.rows) start.try_emplace(row, record(row), record(row) + layout.dim + 1);
      for (const auto& [row, value] : start)
        for (int entry = 0; entry < shape.entries; ++entry) {
          std::vector<std::vector<float>> gradients;
          for (int rank = 0; rank < shape.ranks; ++rank) {
            const StepWork& work = step[static_cast<std::size_t>(rank)];
            const auto at = std::lower_bound(work.rows.begin(), work.rows.end(), row);
            if (at == work.rows.end() || *at != row) continue;
            const std::size_t i =
                static_cast<std::size_t>(entry) * work.rows.size() + static_cast<std::size_t>(at - work.rows.begin());
            for (int k = 0; k < work.occurrences[i]; ++k) {
              gradients.emplace_back(static_cast<std::size_t>(layout.dim));
              test_gradient(s, rank, entry, row, k, value.data(), gradients.back().data(), layout.dim);
            }
          }
          std::vector<const float*> pointers;
          for (const auto& gradient : gradients) pointers.push_back(gradient.data());
          if (!pointers.empty()) update.apply(record(row), pointers, layout);
        }
      before.push_back(std::move(start));
    }
  }
};

inline bool same_record(const float* a, const float* b, std::int64_t dim) {
  return std::memcmp(a, b, static_cast<std::size_t>(dim + 1) * sizeof(float)) == 0;
}

}  // namespace frugal::testing
