// Arrays that ranks gather, which are threads, and that a test would see it if a rank did not wait.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "comm/gather_arrays.h"
#include "tests/comm/segment.h"

namespace frugal::gather {
namespace {

using namespace std::chrono_literals;

constexpr std::int64_t kSizes[] = {7, 4, 1};
constexpr ExchangeFloats kFloats{16, 1, 1};  // 8 + 4 + 4

float value(int rank, int step, std::size_t array, std::int64_t i) {
  return static_cast<float>(1000 * step + 100 * rank + 10 * static_cast<int>(array) + static_cast<int>(i));
}

// How many floats of the ranks' arrays are not the published ones, with a pause(rank, step) before each step.
template <typename Pause>
int wrong_floats(int ranks, int steps, const ExchangeRules& rules, Pause pause) {
  Segment segment(ranks, kFloats);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      HostExchange exchange = segment.exchange(rank, rules);
      for (int step = 0; step < steps; ++step) {
        std::vector<std::vector<float>> memory;
        std::vector<GatheredArray> arrays;
        for (const std::int64_t size : kSizes) {
          memory.emplace_back(ranks * size, -1.0f);
          arrays.push_back({memory.back().data(), size});
          for (std::int64_t i = 0; i < size; ++i)
            arrays.back().row(rank)[i] = value(rank, step, arrays.size() - 1, i);
        }
        pause(rank, step);
        EXPECT_TRUE(gather_arrays(exchange, arrays));
        for (std::size_t a = 0; a < arrays.size(); ++a)
          for (int other = 0; other < ranks; ++other)
            for (std::int64_t i = 0; i < arrays[a].floats; ++i)
              wrong += arrays[a].row(other)[i] != value(other, step, a, i);
      }
    });
  for (std::thread& thread : threads) thread.join();
  return wrong;
}

void no_pause(int, int) {}

class Gathers : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Gathers, ::testing::Values(1, 2, 3, 8));

TEST_P(Gathers, BringAllRowsToAllRanks) { EXPECT_EQ(wrong_floats(GetParam(), 40, {}, no_pause), 0); }

TEST_P(Gathers, DoNotDependOnTheTimingOfRanks) {
  ExchangeRules slow;
  slow.before_reading = [](int rank) { std::this_thread::sleep_for(std::chrono::microseconds(70 * (rank % 3))); };
  const auto pause = [](int rank, int step) {
    std::this_thread::sleep_for(std::chrono::microseconds((rank * 7 + step * 13) % 5 * 60));
  };
  EXPECT_EQ(wrong_floats(GetParam(), 20, slow, pause), 0);
}

TEST(GatherMutations, ARankThatIsNotAwaitedIsMissed) {
  ExchangeRules careless;
  careless.careless = ExchangeRules::kEverywhere;
  const auto last_is_late = [](int rank, int) { std::this_thread::sleep_for(rank == 1 ? 5ms : 0ms); };
  EXPECT_EQ(wrong_floats(2, 4, {}, last_is_late), 0);
  EXPECT_GT(wrong_floats(2, 4, careless, last_is_late), 0);
}

TEST(Gathers, RefuseMoreThanThereIsRoomFor) {
  Segment segment(1, kFloats);
  HostExchange exchange = segment.exchange(0);
  std::vector<float> row(exchange.floats().scores + 1);
  const GatheredArray array{row.data(), static_cast<std::int64_t>(row.size())};
  EXPECT_THROW(gather_arrays(exchange, {&array, 1}), std::invalid_argument);
}

TEST(Gathers, EndWhenARankHasFailed) {
  Segment segment(2, kFloats);
  HostExchange exchange = segment.exchange(0);
  exchange.fail("Rank 1 has ended.");
  std::vector<float> rows(2 * 7, -1.0f);
  std::fill_n(rows.begin(), 7, 5.0f);
  const GatheredArray array{rows.data(), 7};
  EXPECT_FALSE(gather_arrays(exchange, {&array, 1}));
  EXPECT_EQ(rows, std::vector<float>(2 * 7, 5.0f));  // whoever goes on computes with numbers that make sense
}

}  // namespace
}  // namespace frugal::gather
