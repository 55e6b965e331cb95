#include "sampler/joined_sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>

#include "tests/sampler/graph.h"

namespace frugal::joined_sampler {
namespace {

using Samplers = std::vector<std::shared_ptr<const Sampler>>;

Samplers samplers_of(const Graph<>& graph, std::int64_t ranks, std::int64_t batch = 100, std::int64_t negatives = 25) {
  Samplers samplers;
  for (std::int64_t r = 0; r < ranks; ++r)
    samplers.push_back(
        std::make_shared<const Sampler>(graph.edges(), SamplerConfig{500, 20, batch, negatives, 7, r, ranks}));
  return samplers;
}

template <typename T>
void append(std::vector<T>& to, const std::vector<T>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

// Index arrays worked out without the indexer, from the ids alone.
void expect_indexed(const Batch& batch) {
  std::vector<std::int64_t> entities = batch.head;
  append(entities, batch.tail);
  const std::vector<std::int64_t> positive = entities;
  append(entities, batch.negative);
  std::sort(entities.begin(), entities.end());
  entities.erase(std::unique(entities.begin(), entities.end()), entities.end());
  ASSERT_EQ(batch.entities, entities);
  const auto expect_lists = [](const std::vector<std::int64_t>& rows, const std::vector<std::int64_t>& ids,
                               const std::vector<std::int32_t>& offset, const std::vector<std::int32_t>& occurrence) {
    std::vector<std::int32_t> offsets = {0}, occurrences;
    for (const std::int64_t row : rows) {
      for (std::size_t i = 0; i < ids.size(); ++i)
        if (ids[i] == row) occurrences.push_back(static_cast<std::int32_t>(i));
      offsets.push_back(static_cast<std::int32_t>(occurrences.size()));
    }
    EXPECT_EQ(offset, offsets);
    EXPECT_EQ(occurrence, occurrences);
  };
  expect_lists(entities, positive, batch.positive_offset, batch.positive_occurrence);
  expect_lists(entities, batch.negative, batch.negative_offset, batch.negative_occurrence);
  expect_lists(batch.relations, batch.relation, batch.relation_offset, batch.relation_occurrence);
  for (std::size_t i = 0; i < batch.head.size(); ++i) {
    EXPECT_EQ(batch.entities[batch.head_slot[i]], batch.head[i]);
    EXPECT_EQ(batch.entities[batch.tail_slot[i]], batch.tail[i]);
    EXPECT_EQ(batch.relations[batch.relation_slot[i]], batch.relation[i]);
  }
  for (std::size_t i = 0; i < batch.negative.size(); ++i)
    EXPECT_EQ(batch.entities[batch.negative_slot[i]], batch.negative[i]);
}

TEST(JoinedSampler, HasThePartsOfTheRanksInTheirOrder) {
  for (const std::int64_t edges : {5000ll, 4099ll}) {  // whole batches; and a rest at the end of each rank's epoch
    const Graph<> graph(edges, 500, 20);
    for (const std::int64_t ranks : {1, 2, 3, 8}) {
      const Samplers samplers = samplers_of(graph, ranks);
      const JoinedSampler joined(samplers);
      const BatchLimits limits = joined.limits();
      Batch batch;  // one for all steps, so that a smaller one uses the memory of a larger one
      SamplerScratch scratch = joined.scratch();
      for (std::int64_t step = 0; step < 2 * joined.batches_per_epoch() + 3; ++step) {
        joined.sample(step, batch, scratch);
        Batch parts;
        for (const auto& sampler : samplers) {
          const Batch part = sample(*sampler, step);
          append(parts.head, part.head);
          append(parts.relation, part.relation);
          append(parts.tail, part.tail);
          append(parts.negative, part.negative);
          append(parts.weight, part.weight);
          EXPECT_EQ(batch.corrupt_head, part.corrupt_head);
          EXPECT_EQ(batch.chunk_size, part.chunk_size);
          EXPECT_EQ(batch.negatives_per_chunk, part.negatives_per_chunk);
        }
        EXPECT_EQ(batch.step, step);
        ASSERT_EQ(batch.head, parts.head);
        ASSERT_EQ(batch.relation, parts.relation);
        ASSERT_EQ(batch.tail, parts.tail);
        ASSERT_EQ(batch.negative, parts.negative);
        ASSERT_EQ(batch.weight, parts.weight);
        EXPECT_EQ(batch.negative.size(), batch.chunks() * batch.negatives_per_chunk);
        expect_indexed(batch);
        EXPECT_LE(batch.positives(), limits.positives);
        EXPECT_LE(static_cast<std::int64_t>(batch.negative.size()), limits.negatives);
        EXPECT_LE(static_cast<std::int64_t>(batch.entities.size()), limits.entities);
        EXPECT_LE(static_cast<std::int64_t>(batch.relations.size()), limits.relations);
      }
    }
  }
}

TEST(JoinedSampler, OfOneRankIsThatRanksSampler) {
  const Graph<> graph(777, 500, 20);
  const Samplers samplers = samplers_of(graph, 1);
  const JoinedSampler joined(samplers);
  for (std::int64_t step = 0; step < 40; ++step) {
    Batch batch;
    SamplerScratch scratch = joined.scratch();
    joined.sample(step, batch, scratch);
    ASSERT_EQ(content(batch), content(sample(*samplers[0], step)));
  }
}

TEST(JoinedSampler, RefusesRanksThatDoNotFitTogether) {
  const Graph<> graph(777, 500, 20);
  EXPECT_THROW(JoinedSampler({}), std::invalid_argument);
  EXPECT_THROW(JoinedSampler({samplers_of(graph, 1)[0], samplers_of(graph, 1, 100, 20)[0]}), std::invalid_argument);
  EdgeList unweighted = graph.edges();
  unweighted.weight = nullptr;
  const SamplerConfig config{500, 20, 100, 25, 7, 1, 2};
  EXPECT_THROW(JoinedSampler({samplers_of(graph, 2)[0], std::make_shared<const Sampler>(unweighted, config)}),
               std::invalid_argument);
  const SamplerConfig larger{501, 20, 100, 25, 7, 1, 2};
  EXPECT_THROW(JoinedSampler({samplers_of(graph, 2)[0], std::make_shared<const Sampler>(graph.edges(), larger)}),
               std::invalid_argument);
}

}  // namespace
}  // namespace frugal::joined_sampler
