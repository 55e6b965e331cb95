// The rules of the exchange with ranks as threads, and that a test would see if one of them were broken.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <random>
#include <thread>
#include <vector>

#include "exchange/host_exchange.h"

namespace frugal {
namespace {

using namespace std::chrono_literals;

constexpr std::int64_t kFloats = 70;

struct Segment {
  explicit Segment(int ranks) : words(HostExchange::bytes_needed(ranks, kFloats, kFloats) / kExchangeLine + 1) {}
  std::byte* data() { return reinterpret_cast<std::byte*>(words.data()); }
  std::size_t bytes() const { return words.size() * kExchangeLine; }

  struct alignas(kExchangeLine) Line {
    std::byte bytes[kExchangeLine] = {};
  };
  std::vector<Line> words;
};

// Numbers of very different sizes, whose float sum depends on its order.
float value(int rank, int exchange, std::int64_t i) {
  std::uint64_t bits = 0x9e3779b97f4a7c15u * (1000003u * rank + 1009u * exchange + static_cast<unsigned>(i) + 1);
  bits = (bits ^ bits >> 30) * 0xbf58476d1ce4e5b9u, bits ^= bits >> 31;
  return std::ldexp(static_cast<float>(bits % 2001) - 1000.0f, static_cast<int>(bits >> 40) % 40 - 20);
}

float expected(int ranks, int exchange, std::int64_t i, float divisor) {
  float sum = value(0, exchange, i);
  for (int rank = 1; rank < ranks; ++rank) sum = sum + value(rank, exchange, i);
  return sum / divisor;
}

// Runs `exchanges` of them, after a pause(rank, exchange) each. Returns how many sums of any rank were wrong.
template <typename Pause>
int wrong_sums(int ranks, int exchanges, const ExchangeRules& rules, Pause pause) {
  Segment segment(ranks);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      HostExchange exchange(segment.data(), segment.bytes(), rank, ranks, kFloats, kFloats, rules);
      std::vector<float> sums(kFloats);
      for (int number = 0; number < exchanges; ++number) {
        const int region = number % 2;
        const float divisor = region ? static_cast<float>(ranks) : 1.0f;
        for (std::int64_t i = 0; i < kFloats; ++i) exchange.part(region)[i] = value(rank, number, i);
        pause(rank, number);
        exchange.sum(region, kFloats, divisor, sums.data());
        for (std::int64_t i = 0; i < kFloats; ++i) wrong += sums[i] != expected(ranks, number, i, divisor);
      }
    });
  for (std::thread& thread : threads) thread.join();
  return wrong;
}

void no_pause(int, int) {}

class Ranks : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Exchange, Ranks, testing::Values(1, 2, 3, 4, 8));

TEST_P(Ranks, SumsAreThoseOfRankOrder) { EXPECT_EQ(wrong_sums(GetParam(), 100, {}, no_pause), 0); }

TEST_P(Ranks, SumsDoNotDependOnWhenRanksArrive) {
  const auto pause = [](int rank, int number) {
    std::mt19937 random(17u * rank + number);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
  };
  ExchangeRules slow;
  slow.before_reading = [](int rank) { std::this_thread::sleep_for(std::chrono::microseconds(50 * (rank % 3))); };
  EXPECT_EQ(wrong_sums(GetParam(), 40, slow, pause), 0);
}

TEST(ExchangeMutations, ARankThatIsNotAwaitedIsMissed) {
  ExchangeRules rules;
  rules.awaits_all = false;
  const auto last_is_late = [](int rank, int) { std::this_thread::sleep_for(rank == 2 ? 5ms : 0ms); };
  EXPECT_EQ(wrong_sums(3, 4, {}, last_is_late), 0);
  // The late one writes before it pauses; the others then read what it wrote two exchanges ago.
  const auto writes_late = [](int rank, int) { std::this_thread::sleep_for(rank == 0 ? 5ms : 0ms); };
  EXPECT_GT(wrong_sums(3, 6, rules, last_is_late) + wrong_sums(3, 6, rules, writes_late), 0);
}

TEST(ExchangeMutations, ARegionThatIsWrittenTooEarlyIsSeen) {
  ExchangeRules rules;
  rules.before_reading = [](int rank) { std::this_thread::sleep_for(rank == 0 ? 5ms : 0ms); };
  EXPECT_EQ(wrong_sums(2, 4, rules, no_pause), 0);
  rules.two_regions = false;
  EXPECT_GT(wrong_sums(2, 4, rules, no_pause), 0);
}

TEST(ExchangeMutations, AnotherOrderOfRanksHasOtherBits) {
  ExchangeRules rules;
  rules.in_rank_order = false;
  EXPECT_GT(wrong_sums(3, 4, rules, no_pause), 0);
}

TEST(Exchange, NobodyWaitsForARankThatHasFailed) {
  Segment segment(2);
  HostExchange exchange(segment.data(), segment.bytes(), 0, 2, kFloats, kFloats);
  HostExchange other(segment.data(), segment.bytes(), 1, 2, kFloats, kFloats);
  EXPECT_EQ(exchange.sentence(), "");
  std::thread fails([&] {
    std::this_thread::sleep_for(5ms);
    other.fail("Rank 1 is out of paper.");
    other.fail("Nobody hears this.");
  });
  std::vector<float> sums(kFloats);
  exchange.sum(0, kFloats, 1.0f, sums.data());
  EXPECT_EQ(exchange.sentence(), "Rank 1 is out of paper.");
  fails.join();
}

TEST(Exchange, SizesThatDoNotFitAreRefused) {
  Segment segment(2);
  EXPECT_THROW(HostExchange(segment.data(), segment.bytes(), 2, 2, kFloats, kFloats), std::invalid_argument);
  EXPECT_THROW(HostExchange(segment.data(), 1024, 0, 2, kFloats, kFloats), std::invalid_argument);
  EXPECT_THROW(HostExchange(segment.data() + 4, segment.bytes(), 0, 2, kFloats, kFloats), std::invalid_argument);
  HostExchange exchange(segment.data(), segment.bytes(), 0, 2, kFloats, kFloats);
  std::vector<float> sums(1000);
  EXPECT_THROW(exchange.sum(0, 1000, 1.0f, sums.data()), std::invalid_argument);
}

}  // namespace
}  // namespace frugal
