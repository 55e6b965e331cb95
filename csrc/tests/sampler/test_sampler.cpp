#include "sampler/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <stdexcept>

#include "tests/sampler/graph.h"

namespace frugal {
namespace {

SamplerConfig config(std::int64_t batch_size, std::int64_t negatives, std::int64_t rank = 0, std::int64_t ranks = 1) {
  return {500, 20, batch_size, negatives, 7, rank, ranks};
}

// The edges of the batches of one direction in one epoch (the graph's weights are the edges' indices).
std::vector<float> epoch_edges(const Sampler& sampler, bool corrupt_head, std::int64_t epoch) {
  std::vector<float> edges;
  for (std::int64_t i = 0; i < sampler.batches_per_epoch(); ++i) {
    const Batch batch = sample(sampler, 2 * (epoch * sampler.batches_per_epoch() + i) + corrupt_head);
    EXPECT_EQ(batch.corrupt_head, corrupt_head);
    edges.insert(edges.end(), batch.weight.begin(), batch.weight.end());
  }
  return edges;
}

TEST(Sampler, AnEpochVisitsEveryEdgeOnceInEachDirection) {
  const Graph graph(1200, 500, 20);  // 12 batches of 100
  const Sampler sampler(graph.edges(), config(100, 25));
  ASSERT_EQ(sampler.batches_per_epoch(), 12);
  std::set<std::vector<float>> orders;
  for (const bool corrupt_head : {false, true}) {
    for (const std::int64_t epoch : {0, 1, 2}) {
      auto edges = epoch_edges(sampler, corrupt_head, epoch);
      EXPECT_TRUE(orders.insert(edges).second) << "an order came twice";
      std::sort(edges.begin(), edges.end());
      EXPECT_EQ(edges, graph.weight);
    }
  }
}

TEST(Sampler, ChunksFollowDglKe) {
  struct Case {
    std::int64_t edges, batch_size, negatives, rounded, chunk, batches, last;
  };
  for (const Case& c : {
           Case{1000, 100, 25, 100, 25, 10, 100},
           Case{1000, 90, 25, 100, 25, 10, 100},   // rounded up to whole chunks
           Case{1050, 100, 25, 100, 25, 11, 50},   // the last batch is whole chunks: kept,
           Case{1010, 100, 25, 100, 25, 10, 100},  // or not: dropped
           Case{1000, 100, 100, 100, 100, 10, 100},
           Case{1000, 100, 256, 100, 100, 10, 100},  // more negatives than positives: one chunk
           Case{1000, 1, 1, 1, 1, 1000, 1},
           Case{60, 100, 25, 50, 25, 1, 50},  // fewer edges than a batch,
           Case{7, 100, 25, 7, 7, 1, 7},      // than a chunk
           Case{1, 1024, 256, 1, 1, 1, 1},
       }) {
    const Graph graph(c.edges, 500, 20);
    const Sampler sampler(graph.edges(), config(c.batch_size, c.negatives));
    EXPECT_EQ(sampler.batch_size(), c.rounded);
    EXPECT_EQ(sampler.chunk_size(), c.chunk);
    EXPECT_EQ(sampler.batches_per_epoch(), c.batches);
    for (const std::int64_t step : {std::int64_t{0}, 2 * (c.batches - 1), 2 * c.batches - 1, 2 * c.batches}) {
      const Batch batch = sample(sampler, step);
      EXPECT_EQ(batch.positives(), step / 2 % c.batches == c.batches - 1 ? c.last : c.rounded);
      EXPECT_EQ(batch.chunk_size, c.chunk);
      EXPECT_EQ(batch.negatives_per_chunk, c.negatives);
      EXPECT_EQ(static_cast<std::int64_t>(batch.negative.size()), batch.positives() / c.chunk * c.negatives);
    }
  }
}

TEST(TripleSet, HasWhatItWasGiven) {
  const Graph graph(3000, 50, 7);
  const EdgeList edges = graph.edges();
  const TripleSet known(edges.head, edges.relation, edges.tail, 50, 7);
  std::set<std::tuple<int, int, int>> expected;
  for (std::size_t i = 0; i < graph.head.size(); ++i) {
    expected.emplace(graph.head[i], graph.relation[i], graph.tail[i]);
  }
  for (int h = 0; h < 50; ++h) {
    for (int r = 0; r < 7; ++r) {
      for (int t = 0; t < 50; ++t) EXPECT_EQ(known.contains(h, r, t), expected.contains({h, r, t}));
    }
  }
  EXPECT_FALSE(TripleSet().contains(0, 0, 0));
  EXPECT_THROW(TripleSet(edges.head, edges.relation, edges.tail, std::int64_t{1} << 31, 1 << 10),
               std::invalid_argument);
}

TEST(Sampler, RanksShareTheEdges) {
  for (const std::int64_t edges : {1000ll, 1003ll}) {
    const Graph graph(edges, 500, 20);
    for (const std::int64_t ranks : {1ll, 2ll, 3ll, 8ll}) {
      std::vector<float> seen;
      for (std::int64_t rank = 0; rank < ranks; ++rank) {
        const Sampler sampler(graph.edges(), config(1, 1, rank, ranks));
        EXPECT_LE(std::abs(sampler.edges() - edges / ranks), 1);
        const auto part = epoch_edges(sampler, false, 0);
        auto other_direction = epoch_edges(sampler, true, 5);
        std::sort(other_direction.begin(), other_direction.end());
        seen.insert(seen.end(), part.begin(), part.end());
        auto sorted = part;
        std::sort(sorted.begin(), sorted.end());
        EXPECT_EQ(sorted, other_direction) << "a rank's part must not change with the epoch";
      }
      std::sort(seen.begin(), seen.end());
      EXPECT_EQ(seen, graph.weight);
    }
  }
}

TEST(Sampler, AGivenPartIsUsedInstead) {
  const Graph graph(1000, 500, 20);
  const std::vector<std::int64_t> part = {999, 3, 500, 0, 7};
  const IdArray view(part.data(), 5);
  const Sampler sampler(graph.edges(), config(1, 1, 1, 2), &view);
  auto edges = epoch_edges(sampler, true, 3);
  std::sort(edges.begin(), edges.end());
  EXPECT_EQ(edges, (std::vector<float>{0, 3, 7, 500, 999}));

  const std::vector<std::int32_t> wrong = {1000};
  const IdArray wrong_view(wrong.data(), 1);
  EXPECT_THROW(sample(Sampler(graph.edges(), config(1, 1), &wrong_view), 0), std::out_of_range);
}

TEST(Sampler, WidthAndStrideOfTheArraysDoNotMatter) {
  const Graph<std::int32_t> narrow(1000, 500, 20);
  const Graph<std::int64_t> wide(1000, 500, 20);
  std::vector<std::int32_t> table;
  for (int i = 0; i < 1000; ++i) table.insert(table.end(), {narrow.head[i], narrow.relation[i], narrow.tail[i]});
  const EdgeList columns{IdArray(&table[0], 1000, 3), IdArray(&table[1], 1000, 3), IdArray(&table[2], 1000, 3),
                         narrow.weight.data()};
  const Sampler a(narrow.edges(), config(100, 20)), b(wide.edges(), config(100, 20)), c(columns, config(100, 20));
  for (const std::int64_t step : {0, 1, 77}) {
    EXPECT_EQ(content(sample(a, step)), content(sample(b, step)));
    EXPECT_EQ(content(sample(a, step)), content(sample(c, step)));
  }
}

TEST(Sampler, SeedRankAndStepMakeTheDifference) {
  const Graph graph(1000, 500, 20);
  auto other_seed = config(100, 20);
  other_seed.seed = 8;
  const Sampler sampler(graph.edges(), config(100, 20)), seeded(graph.edges(), other_seed);
  EXPECT_EQ(content(sample(sampler, 3)), content(sample(sampler, 3)));
  EXPECT_NE(sample(sampler, 3).head, sample(seeded, 3).head);
  EXPECT_NE(sample(sampler, 3).negative, sample(seeded, 3).negative);
  EXPECT_NE(sample(sampler, 3).negative, sample(sampler, 5).negative);
  const Sampler first(graph.edges(), config(100, 20, 0, 2)), second(graph.edges(), config(100, 20, 1, 2));
  EXPECT_NE(sample(first, 3).negative, sample(second, 3).negative);
}

TEST(Sampler, LateStepsWork) {  // far beyond 32 bits
  const Graph graph(1000, 500, 20);
  const Sampler sampler(graph.edges(), config(100, 20));
  const std::int64_t late = (std::int64_t{1} << 40) + 1;
  const Batch batch = sample(sampler, late);
  EXPECT_EQ(batch.step, late);
  EXPECT_EQ(batch.positives(), 100);
  EXPECT_NE(batch.negative, sample(sampler, late % (std::int64_t{1} << 32)).negative);
}

TEST(Sampler, RefusesImpossibleSizes) {
  const Graph graph(10, 500, 20);
  const auto build = [&](auto change) {
    auto c = config(2, 2);
    change(c);
    Sampler(graph.edges(), c);
  };
  EXPECT_THROW(build([](auto& c) { c.batch_size = 0; }), std::invalid_argument);
  EXPECT_THROW(build([](auto& c) { c.negatives = -1; }), std::invalid_argument);
  EXPECT_THROW(build([](auto& c) { c.entities = 0; }), std::invalid_argument);
  EXPECT_THROW(build([](auto& c) { c.rank = 1; }), std::invalid_argument);
  EXPECT_THROW(build([](auto& c) { c.ranks = 11; }), std::invalid_argument);  // the first rank would have no edge
  EXPECT_THROW(Sampler(EdgeList{}, config(1, 1)), std::invalid_argument);
  EXPECT_THROW(sample(Sampler(graph.edges(), config(2, 2)), -1), std::invalid_argument);
}

}  // namespace
}  // namespace frugal
