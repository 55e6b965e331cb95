// Rows of steps at random, for tests of plans.
#pragma once

#include <cstdint>
#include <random>
#include <set>
#include <vector>

namespace frugal::testing {

// Steps of thousands of rows that a test plans. A sanitizer takes many times as long; 16 steps use each ring again.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int kPlannedSteps = 16;
#else
constexpr int kPlannedSteps = 40;
#endif

// How a step's rows are drawn: of `table` rows up to `most`; one step in `small` has two at most; one row in `again` is
// of the first table / share of them, which so come again soon.
struct RandomRows {
  std::int64_t table, most;
  unsigned small, again, share;

  // Distinct and ascending.
  std::vector<std::int64_t> operator()(std::mt19937_64& random) const {
    std::set<std::int64_t> rows;
    const auto size = random() % small == 0 ? random() % 3 : random() % static_cast<std::uint64_t>(most);
    while (rows.size() < size) {
      const auto uniform = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(table));
      rows.insert(random() % again ? uniform : uniform / share);
    }
    return {rows.begin(), rows.end()};
  }
};

}  // namespace frugal::testing
