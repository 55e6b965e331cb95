#include "sampler/batch_stream.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <set>
#include <stdexcept>

#include "tests/sampler/graph.h"

namespace frugal {
namespace {

const Graph<>& graph() {
  static const Graph<> instance(5000, 500, 20);
  return instance;
}

std::shared_ptr<const Sampler> make_sampler(EdgeList edges = graph().edges()) {
  return std::make_shared<const Sampler>(edges, SamplerConfig{500, 20, 100, 25, 7, 0, 1});
}

TEST(BatchStream, GivesTheSamplersBatchesInOrderForAnyNumberOfThreads) {
  const auto sampler = make_sampler();
  for (const int threads : {1, 2, 3, 4}) {
    for (const int lookahead : {1, 2, 13}) {
      for (const std::int64_t first : {0, 59}) {  // 59: resumed in the middle
        BatchStream stream(sampler, first, threads, lookahead);
        for (std::int64_t step = first; step < first + 70; ++step) {
          ASSERT_EQ(content(*stream.next()), content(sample(*sampler, step))) << threads << " threads, step " << step;
        }
      }
    }
  }
}

TEST(BatchStream, HeldBatchesDoNotChange) {
  const auto sampler = make_sampler();
  std::deque<std::shared_ptr<const Batch>> held;
  {
    BatchStream stream(sampler, 0, 4, 3);
    for (int step = 0; step < 300; ++step) {
      held.push_back(stream.next());
      if (held.size() > 20) {  // more than the lookahead, as a trainer that registers steps ahead does
        ASSERT_EQ(content(*held.front()), content(sample(*sampler, step - 20)));
        held.pop_front();
      }
    }
  }
  for (const auto& batch : held) EXPECT_EQ(content(*batch), content(sample(*sampler, batch->step)));
}

TEST(BatchStream, MemoryIsUsedAgain) {
  BatchStream stream(make_sampler(), 0, 2, 4);
  std::set<const Batch*> addresses;
  for (int step = 0; step < 500; ++step) addresses.insert(stream.next().get());
  EXPECT_LE(addresses.size(), 4 + 2 + 1u);  // waiting, being made, held
}

TEST(BatchStream, AnErrorAppearsAtItsStepAndStays) {
  Graph<> broken = graph();
  broken.head[1234] = 500;  // one beyond the last entity
  const auto sampler = make_sampler(broken.edges());
  std::int64_t bad_step = 0;
  for (;; ++bad_step) {
    const Batch good = sample(*make_sampler(), bad_step);
    if (std::find(good.weight.begin(), good.weight.end(), 1234.0f) != good.weight.end()) break;
  }
  for (const int threads : {1, 4}) {
    BatchStream stream(sampler, 0, threads, 30);
    for (std::int64_t step = 0; step < bad_step; ++step) EXPECT_EQ(stream.next()->step, step);
    EXPECT_THROW(stream.next(), std::out_of_range);
    EXPECT_THROW(stream.next(), std::out_of_range);
  }
}

TEST(BatchStream, ClosingWakesTheConsumer) {
  for (int round = 0; round < 50; ++round) {
    BatchStream stream(make_sampler(), 0, 2, 2);
    std::thread consumer([&] {
      try {
        for (;;) stream.next();
      } catch (const std::runtime_error&) {
      }
    });
    stream.close();
    consumer.join();
    EXPECT_THROW(stream.next(), std::runtime_error);
    stream.close();
  }
}

TEST(BatchStream, EndsWhileBatchesAreBeingMade) {
  for (int round = 0; round < 50; ++round) {
    BatchStream stream(make_sampler(), 0, 3, 5);
    EXPECT_EQ(stream.next()->step, 0);
  }
}

TEST(BatchStream, RefusesImpossibleSettings) {
  EXPECT_THROW(BatchStream(make_sampler(), -1, 1, 1), std::invalid_argument);
  EXPECT_THROW(BatchStream(make_sampler(), 0, 0, 1), std::invalid_argument);
  EXPECT_THROW(BatchStream(make_sampler(), 0, 1, 0), std::invalid_argument);
}

}  // namespace
}  // namespace frugal
