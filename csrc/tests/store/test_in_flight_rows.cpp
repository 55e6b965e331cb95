#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <random>
#include <set>
#include <stdexcept>
#include <vector>

#include "store/in_flight_rows.h"

namespace frugal {
namespace {

constexpr std::int64_t kRows = 40, kMaxRows = 12, kScratch = kRows, kFirstSlot = kScratch + 1, kSteps = 400;

struct Plan {
  std::vector<std::int64_t> rows;
  std::vector<std::int32_t> source;
  std::vector<RowDestination> leave;
  std::vector<std::int64_t> target;

  void add(std::int64_t row, std::int32_t from, RowDestination how, std::int64_t to) {
    rows.push_back(row), source.push_back(from), leave.push_back(how), target.push_back(to);
  }
};

void amend(InFlightRows& departures, Plan& plan) { departures.amend(plan.rows, plan.source, plan.leave, plan.target); }

// A device and its host, with rows that are versions: each step writes its number into every row that it uses.
class Machine {
 public:
  Machine(std::int64_t steps, std::uint64_t seed)
      : steps_(steps), random_(seed), departures_(kRows, kFirstSlot, kMaxRows, steps), home_(kRows), newest_(kRows) {}

  void run(std::int64_t step) {
    if (random_() % 50 == 0) drain(step);
    evict(step);
    depart(step - steps_ + static_cast<std::int64_t>(random_() % steps_));  // the first must have left, others may have
    Plan plan = plan_of();
    const Plan planned = plan;
    amend(departures_, plan);
    std::vector<std::int64_t> read;
    for (std::size_t u = 0; u < plan.rows.size(); ++u)
      read.push_back(plan.source[u] == kFromHost ? home_[plan.rows[u]] : memory_.at(plan.source[u]));
    for (std::size_t u = 0; u < plan.rows.size(); ++u) {
      const std::int64_t row = plan.rows[u];
      if (u >= real_) {  // padding
        EXPECT_EQ(plan.source[u], planned.source[u]);
        EXPECT_EQ(plan.target[u], planned.target[u]);
        continue;
      }
      EXPECT_EQ(read[u], newest_[row]) << "row " << row << " in step " << step;
      memory_[plan.target[u]] = newest_[row] = step + 1;
      if (plan.leave[u] == RowDestination::kHostRow) {
        cached_.erase(row);
        left_.push_back({step, row, plan.target[u]});
      } else {
        EXPECT_EQ(plan.target[u], planned.target[u]);
        cached_.insert(row);
      }
    }
  }

 private:
  struct Left {
    std::int64_t step, row, slot;
  };

  // All departures up to the step's, in order: what lies in the slots then.
  void depart(std::int64_t step) {
    while (!left_.empty() && left_.front().step <= step) {
      home_[left_.front().row] = memory_.at(left_.front().slot);
      left_.pop_front();
    }
  }

  // Some cached rows go home, behind all departures but the last step's.
  void evict(std::int64_t step) {
    if (random_() % 3 != 0) return;
    depart(step - 2);
    std::erase_if(cached_, [&](std::int64_t row) {
      const bool leaves = random_() % 3 == 0;
      if (leaves) home_[row] = memory_.at(row);
      return leaves;
    });
  }

  // All rows are at home, and somebody changes them.
  void drain(std::int64_t step) {
    depart(step - 1);
    departures_.forget();
    for (std::int64_t row = 0; row < kRows; ++row) home_[row] = newest_[row] = -step;
    for (const std::int64_t row : cached_) memory_[row] = -step;
  }

  Plan plan_of() {
    Plan plan;
    std::int64_t leaving = 0;
    for (std::int64_t row = 0; row < kRows; ++row) {
      if (random_() % 3 != 0) continue;
      const bool leaves = random_() % 2 == 0 && leaving < kMaxRows;
      leaving += leaves;
      plan.add(row, cached_.contains(row) ? static_cast<std::int32_t>(row) : kFromHost,
               leaves ? RowDestination::kHostRow : RowDestination::kCache, row);
    }
    if (random_() % 20 == 0) plan = {};
    real_ = plan.rows.size();
    for (std::uint64_t pads = random_() % 3; pads > 0; --pads) plan.add(0, kScratch, RowDestination::kCache, kScratch);
    memory_[kScratch] = 0;
    return plan;
  }

  const std::int64_t steps_;
  std::mt19937_64 random_;
  InFlightRows departures_;
  std::vector<std::int64_t> home_, newest_;      // versions by row: of the host row, and the true one
  std::map<std::int64_t, std::int64_t> memory_;  // versions by slot; row r is cached in slot r
  std::set<std::int64_t> cached_;                // rows
  std::deque<Left> left_;                        // on their way, in order
  std::size_t real_ = 0;                         // rows of the plan that are no padding
};

TEST(InFlightRows, EveryStepReadsTheNewestVersions) {
  for (std::int64_t steps = 1; steps <= 4; ++steps)
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      Machine machine(steps, seed);
      for (std::int64_t step = 0; step < kSteps; ++step) machine.run(step);
      ASSERT_FALSE(HasFailure()) << steps << " steps, seed " << seed;
    }
}

TEST(InFlightRows, WrongPlansAreRefusedAndChangeNothing) {
  InFlightRows departures(kRows, 10, 2, 3);
  Plan many, uneven, plan;
  for (std::int64_t row = 0; row < 3; ++row) many.add(row, kFromHost, RowDestination::kHostRow, row);
  EXPECT_THROW(amend(departures, many), std::invalid_argument);
  uneven.add(1, kFromHost, RowDestination::kHostRow, 1);
  uneven.source.clear();
  EXPECT_THROW(amend(departures, uneven), std::invalid_argument);
  plan.add(2, kFromHost, RowDestination::kHostRow, 2);
  amend(departures, plan);
  EXPECT_EQ(plan.source[0], kFromHost);
  EXPECT_EQ(plan.target[0], 10);
}

}  // namespace
}  // namespace frugal
