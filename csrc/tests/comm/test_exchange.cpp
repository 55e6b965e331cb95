// The rules of the exchange with ranks as threads, and that a test would see if one of them were broken.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <random>
#include <thread>
#include <vector>

#include "comm/host_exchange.h"
#include "tests/at_once.h"
#include "tests/comm/segment.h"

namespace frugal {
namespace {

using namespace std::chrono_literals;

// Positives, floats that each has of raw scores and of weights, and floats that concern all.
constexpr std::int64_t kRows = 13, kScores = 5, kCommon = 6, kWeights = 4, kSquares = 70;
constexpr ExchangeFloats kFloats{kRows * kScores + kCommon, kRows * kWeights, kSquares};

// Numbers of very different sizes, whose float sum depends on its order.
float value(int rank, int collective, std::int64_t i) {
  std::uint64_t bits = 0x9e3779b97f4a7c15u * (1000003u * rank + 1009u * collective + static_cast<unsigned>(i) + 1);
  bits = (bits ^ bits >> 30) * 0xbf58476d1ce4e5b9u, bits ^= bits >> 31;
  return std::ldexp(static_cast<float>(bits % 2001) - 1000.0f, static_cast<int>(bits >> 40) % 40 - 20);
}

float sum_of_ranks(int ranks, int collective, std::int64_t i) {
  float sum = value(0, collective, i);
  for (int rank = 1; rank < ranks; ++rank) sum = sum + value(rank, collective, i);
  return sum;
}

// What a positive's owner makes of its sums.
float weight(const float* sums, std::int64_t i) { return 3.0f * sums[i % kScores] + static_cast<float>(i); }

// A rank's steps, with a pause(rank, collective) before each collective. Counts wrong numbers.
template <typename Pause>
class Steps {
 public:
  Steps(Segment& segment, int rank, const ExchangeRules& rules, Pause pause)
      : exchange_(segment.exchange(rank, rules)), pause_(pause) {}

  int run(int steps) {
    for (int step = 0; step < steps; ++step) {
      const Share own = share_of(kRows, exchange_.rank(), exchange_.ranks());
      std::vector<float> scores = own_values(kFloats.scores);
      exchange_.reduce_scatter(scores.data(), kRows, kScores, kCommon);
      for (std::int64_t i = own.first * kScores; i < own.end * kScores; ++i) expect(scores[i], sum(i));
      for (std::int64_t i = kRows * kScores; i < kFloats.scores; ++i) expect(scores[i], sum(i));

      std::vector<float> weights(kFloats.weights, -1.0f), expected(weights);
      for (std::int64_t row = 0; row < kRows; ++row) {
        float sums[kScores];
        for (std::int64_t i = 0; i < kScores; ++i) sums[i] = sum(row * kScores + i);
        for (std::int64_t i = 0; i < kWeights; ++i) {
          expected[row * kWeights + i] = weight(sums, i);
          if (own.first <= row && row < own.end) weights[row * kWeights + i] = weight(&scores[row * kScores], i);
        }
      }
      next();
      exchange_.all_gather(weights.data(), kRows, kWeights);
      for (std::int64_t i = 0; i < kFloats.weights; ++i) expect(weights[i], expected[i]);

      next();
      std::vector<float> squares = own_values(kSquares);
      exchange_.all_reduce_mean(squares.data(), kSquares);
      for (std::int64_t i = 0; i < kSquares; ++i) expect(squares[i], sum(i) / static_cast<float>(exchange_.ranks()));
      ++collective_;
    }
    return wrong_;
  }

 private:
  float sum(std::int64_t i) const { return sum_of_ranks(exchange_.ranks(), collective_, i); }
  std::vector<float> own_values(std::int64_t count) {
    std::vector<float> values(count);
    for (std::int64_t i = 0; i < count; ++i) values[i] = value(exchange_.rank(), collective_, i);
    pause_(exchange_.rank(), collective_);
    return values;
  }
  void next() { pause_(exchange_.rank(), ++collective_); }
  void expect(float actual, float expected) { wrong_ += actual != expected; }

  HostExchange exchange_;
  Pause pause_;
  int collective_ = 0, wrong_ = 0;
};

// Of any rank of a segment that is new.
template <typename Pause>
int wrong_numbers(Segment& segment, int steps, const ExchangeRules& rules, Pause pause) {
  std::atomic<int> wrong{0};
  at_once(segment.ranks(), [&](int rank) { wrong += Steps<Pause>(segment, rank, rules, pause).run(steps); });
  return wrong;
}

template <typename Pause>
int wrong_numbers(int ranks, int steps, const ExchangeRules& rules, Pause pause) {
  Segment segment(ranks, kFloats);
  return wrong_numbers(segment, steps, rules, pause);
}

void no_pause(int, int) {}

class Ranks : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Exchange, Ranks, testing::Values(1, 2, 3, 4, 8, 11));

TEST_P(Ranks, SumsAreThoseOfRankOrderAndSharesReachAll) { EXPECT_EQ(wrong_numbers(GetParam(), 60, {}, no_pause), 0); }

TEST_P(Ranks, NumbersDoNotDependOnTheTimingOfRanks) {
  const auto pause = [](int rank, int collective) {
    std::mt19937 random(17u * rank + collective);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
  };
  ExchangeRules slow;
  slow.before_reading = [](int rank) { std::this_thread::sleep_for(std::chrono::microseconds(50 * (rank % 3))); };
  EXPECT_EQ(wrong_numbers(GetParam(), 20, slow, pause), 0);
}

TEST_P(Ranks, SharesAreWholeRowsInTheOrderOfRanks) {
  for (std::int64_t rows = 1; rows < 30; ++rows) {
    std::int64_t next = 0;
    for (int rank = 0; rank < GetParam(); ++rank) {
      const Share share = share_of(rows, rank, GetParam());
      EXPECT_EQ(share.first, next);
      EXPECT_LE(share.rows(), share_rows(rows, GetParam()));
      for (next = share.first; next < share.end; ++next) EXPECT_EQ(next / share_rows(rows, GetParam()), rank);
    }
    EXPECT_EQ(next, rows);
  }
}

// The last rank comes to the collectives of a region when the others have read what it has not yet written there.
TEST(ExchangeMutations, ARankThatIsNotAwaitedIsMissed) {
  constexpr int kSteps = 4, kLast = 2;
  for (const auto region : {ExchangeRegion::kScores, ExchangeRegion::kWeights, ExchangeRegion::kSquares}) {
    Segment segment(kLast + 1, kFloats);
    ExchangeRules rules;
    rules.careless = static_cast<int>(region);
    const auto last_is_late = [&](int rank, int collective) {
      if (rank != kLast || collective % 3 != static_cast<int>(region) || collective == 3 * kSteps - 1) return;
      for (int other = 0; other < kLast; ++other) segment.await_posted(other, collective + 2);
    };
    EXPECT_GT(wrong_numbers(segment, kSteps, rules, last_is_late), 0) << "region " << static_cast<int>(region);
  }
}

// Rank 0 reads when rank 1 has written for the next collective.
TEST(ExchangeMutations, ARegionThatIsWrittenTooEarlyIsSeen) {
  for (const bool regions_apart : {true, false}) {
    constexpr std::uint64_t kSteps = 4;
    Segment segment(2, kFloats);
    std::uint64_t collective = 0;  // of rank 0
    ExchangeRules rules;
    rules.regions_apart = regions_apart;
    rules.before_reading = [&](int rank) {
      if (rank == 0 && ++collective < 3 * kSteps) segment.await_posted(1, collective + 1);
    };
    EXPECT_EQ(wrong_numbers(segment, kSteps, rules, no_pause) == 0, regions_apart);
  }
}

TEST(ExchangeMutations, AnotherOrderOfRanksHasOtherBits) {
  ExchangeRules rules;
  rules.in_rank_order = false;
  EXPECT_GT(wrong_numbers(3, 4, rules, no_pause), 0);
}

TEST(Exchange, NobodyWaitsForARankThatHasFailed) {
  for (const bool at_weights : {false, true}) {
    Segment segment(2, kFloats);
    HostExchange exchange = segment.exchange(0), other = segment.exchange(1);
    EXPECT_EQ(exchange.sentence(), "");
    std::thread fails([&] {
      std::vector<float> scores(kFloats.scores);
      if (at_weights) other.reduce_scatter(scores.data(), kRows, kScores, kCommon);
      std::this_thread::sleep_for(5ms);
      other.fail("Rank 1 is out of paper.");
      other.fail("Nobody hears this.");
    });
    std::vector<float> scores(kFloats.scores), weights(kFloats.weights), squares(kSquares);
    exchange.reduce_scatter(scores.data(), kRows, kScores, kCommon);
    exchange.all_gather(weights.data(), kRows, kWeights);
    EXPECT_EQ(exchange.sentence(), "Rank 1 is out of paper.");
    exchange.all_reduce_mean(squares.data(), kSquares);
    fails.join();
  }
}

TEST(Exchange, SizesThatDoNotFitAreRefused) {
  Segment segment(2, kFloats);
  EXPECT_THROW(HostExchange(segment.data(), segment.bytes(), 2, 2, kFloats), std::invalid_argument);
  EXPECT_THROW(HostExchange(segment.data(), 1024, 0, 2, kFloats), std::invalid_argument);
  Segment crowded(kMostHostRanks + 1, kFloats);
  EXPECT_THROW(HostExchange(crowded.data(), crowded.bytes(), 0, kMostHostRanks + 1, kFloats), std::invalid_argument);
  EXPECT_THROW(HostExchange(segment.data() + 4, segment.bytes(), 0, 2, kFloats), std::invalid_argument);
  HostExchange exchange = segment.exchange(0);
  std::vector<float> values(1000);
  EXPECT_THROW(exchange.reduce_scatter(values.data(), 10, 100, 0), std::invalid_argument);
  EXPECT_THROW(exchange.all_gather(values.data(), 10, 100), std::invalid_argument);
  EXPECT_THROW(exchange.all_reduce_mean(values.data(), 1000), std::invalid_argument);
}

}  // namespace
}  // namespace frugal
