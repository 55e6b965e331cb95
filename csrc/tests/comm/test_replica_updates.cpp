// Replicas of ranks that are threads, against plain loops, and that a test would see it if ranks did not wait.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "comm/cpu/replica_updates.h"
#include "comm/host_exchange.h"
#include "table/row_adagrad.h"
#include "tests/at_once.h"
#include "tests/comm/replica_steps.h"
#include "tests/comm/segment.h"

namespace frugal {
namespace {

using namespace std::chrono_literals;
using namespace replica_steps;

// Of a part that its rank may be writing: with ids in order, so that whoever applies it stays within the table.
std::vector<float> readable_copy(const ReplicaPart& part, const float* from) {
  std::vector<float> copy(from, from + part.floats());
  auto* const ids = reinterpret_cast<std::int32_t*>(copy.data());
  std::sort(ids, ids + part.rows);
  return copy;
}

// How many floats of the ranks' replicas are not those of plain loops after `steps` steps, with a pause(rank, step)
// before each. The segment is new.
template <typename Pause>
int wrong_floats(Segment& segment, const ReplicaPart& part, int steps, const ExchangeRules& rules, Pause pause) {
  const std::vector<float> expected = by_plain_loops(segment.ranks(), part, steps);
  const bool broken = rules.careless != -1 || !rules.regions_apart;
  std::atomic<int> wrong{0};
  at_once(segment.ranks(), [&](int rank) {
    HostExchange exchange = segment.exchange(rank, rules);
    std::vector<float> table = first_table(part);
    for (int step = 0; step < steps; ++step) {
      pause(rank, step);
      const RankStep own(part, rank, step);
      cpu::put_sums(part, own.ids, {own.entries, static_cast<std::size_t>(part.entries)}, exchange.next_part());
      exchange.post();
      exchange.await();
      std::vector<const float*> of_ranks;
      std::vector<std::vector<float>> copies;
      for (int other = 0; other < segment.ranks(); ++other) {
        of_ranks.push_back(exchange.part_of(other));
        if (broken) of_ranks.back() = copies.emplace_back(readable_copy(part, of_ranks.back())).data();
      }
      cpu::apply_sums(part, of_ranks, table.data(), stride(part), kRate);
    }
    for (std::size_t i = 0; i < table.size(); ++i) wrong += table[i] != expected[i];
  });
  return wrong;
}

ExchangeFloats floats_of(const ReplicaPart& part) { return {part.floats(), 1, part.floats()}; }

template <typename Pause>
int wrong_floats(int ranks, const ReplicaPart& part, int steps, const ExchangeRules& rules, Pause pause) {
  Segment segment(ranks, floats_of(part));
  return wrong_floats(segment, part, steps, rules, pause);
}

void no_pause(int, int) {}

class Ranks : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Replicas, Ranks, testing::Values(1, 2, 3, 4, 8));

TEST_P(Ranks, AreThoseOfPlainLoops) {
  for (const int entries : {1, 2})
    for (const std::int64_t dim : {3, 32, 70})
      EXPECT_EQ(wrong_floats(GetParam(), {11, dim, entries}, 12, {}, no_pause), 0);
}

TEST_P(Ranks, DoNotDependOnTheTimingOfRanks) {
  ExchangeRules slow;
  slow.before_reading = [](int rank) { std::this_thread::sleep_for(std::chrono::microseconds(70 * (rank % 3))); };
  const auto pause = [](int rank, int step) {
    std::this_thread::sleep_for(std::chrono::microseconds((rank * 7 + step * 13) % 5 * 60));
  };
  EXPECT_EQ(wrong_floats(GetParam(), {11, 20, 1}, 30, slow, pause), 0);
}

// The last rank comes to a step when the others have read what it has not yet written for it.
TEST(ReplicaMutations, ARankThatIsNotAwaitedIsMissed) {
  constexpr ReplicaPart kPart{11, 20, 1};
  constexpr int kSteps = 6, kLast = 2;
  Segment segment(kLast + 1, floats_of(kPart));
  ExchangeRules rules;
  rules.careless = ExchangeRules::kEverywhere;
  const auto last_is_late = [&](int rank, int step) {
    for (int other = 0; rank == kLast && step < kSteps - 1 && other < kLast; ++other)
      segment.await_posted(other, step + 2);
  };
  EXPECT_GT(wrong_floats(segment, kPart, kSteps, rules, last_is_late), 0);
}

// Rank 0 reads when rank 1 has written for the next step.
TEST(ReplicaMutations, APartThatIsWrittenTooEarlyIsSeen) {
  constexpr ReplicaPart kPart{11, 20, 1};
  constexpr std::uint64_t kSteps = 4;
  for (const bool regions_apart : {true, false}) {
    Segment segment(2, floats_of(kPart));
    std::uint64_t step = 0;  // of rank 0
    ExchangeRules rules;
    rules.regions_apart = regions_apart;
    rules.before_reading = [&](int rank) {
      if (rank == 0 && ++step < kSteps) segment.await_posted(1, step + 1);
    };
    EXPECT_EQ(wrong_floats(segment, kPart, kSteps, rules, no_pause) == 0, regions_apart);
  }
}

}  // namespace
}  // namespace frugal
