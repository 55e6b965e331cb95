#include "sampler/batch_indexer.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <stdexcept>

namespace frugal {
namespace {

using Occurrences = std::map<std::int64_t, std::vector<std::int32_t>>;  // by id; std::map keeps ids ascending

// What the lists of offsets and occurrences say, as a map.
Occurrences lists(const std::vector<std::int64_t>& ids, const std::vector<std::int32_t>& offset,
                  const std::vector<std::int32_t>& occurrence) {
  Occurrences result;
  EXPECT_EQ(offset.size(), ids.size() + 1);
  EXPECT_EQ(offset.front(), 0);
  EXPECT_EQ(offset.back(), static_cast<std::int32_t>(occurrence.size()));
  for (std::size_t u = 0; u < ids.size(); ++u) {
    EXPECT_LE(offset[u], offset[u + 1]);
    result[ids[u]] = {occurrence.begin() + offset[u], occurrence.begin() + offset[u + 1]};
  }
  return result;
}

void expect_indexed(const Batch& batch) {
  const auto positives = static_cast<std::int32_t>(batch.head.size());
  Occurrences positive, negative, relation;
  for (std::int32_t i = 0; i < positives; ++i) positive[batch.head[i]].push_back(i);
  for (std::int32_t i = 0; i < positives; ++i) positive[batch.tail[i]].push_back(positives + i);
  for (std::size_t i = 0; i < batch.negative.size(); ++i)
    negative[batch.negative[i]].push_back(static_cast<std::int32_t>(i));
  for (std::int32_t i = 0; i < positives; ++i) relation[batch.relation[i]].push_back(i);
  for (const auto& [id, unused] : positive) negative[id];  // an entity that is only positive has an empty list, and
  for (const auto& [id, unused] : negative) positive[id];  // the other way round

  std::vector<std::int64_t> entities, relations;
  for (const auto& [id, unused] : positive) entities.push_back(id);
  for (const auto& [id, unused] : relation) relations.push_back(id);
  ASSERT_EQ(batch.entities, entities);
  ASSERT_EQ(batch.relations, relations);
  EXPECT_EQ(lists(batch.entities, batch.positive_offset, batch.positive_occurrence), positive);
  EXPECT_EQ(lists(batch.entities, batch.negative_offset, batch.negative_occurrence), negative);
  EXPECT_EQ(lists(batch.relations, batch.relation_offset, batch.relation_occurrence), relation);

  const auto resolve = [](const std::vector<std::int64_t>& ids, const std::vector<std::int32_t>& slots) {
    std::vector<std::int64_t> result;
    for (const std::int32_t slot : slots) result.push_back(ids.at(slot));
    return result;
  };
  EXPECT_EQ(resolve(batch.entities, batch.head_slot), batch.head);
  EXPECT_EQ(resolve(batch.entities, batch.tail_slot), batch.tail);
  EXPECT_EQ(resolve(batch.entities, batch.negative_slot), batch.negative);
  EXPECT_EQ(resolve(batch.relations, batch.relation_slot), batch.relation);
}

TEST(BatchIndexer, AgreesWithAnOracle) {
  std::mt19937_64 random(1);
  for (const std::int64_t entities : {1ll, 2ll, 1000ll, 2048ll, 2049ll, 86'054'151ll, 1ll << 32, (1ll << 40) + 1}) {
    for (const std::int64_t relations : {1ll, 1345ll, 1ll << 33}) {
      BatchIndexer indexer(entities, relations);
      Batch batch;  // one for all, so that a smaller batch uses the memory of a larger one
      for (const auto& [positives, negatives] : {std::pair(0, 0), {1, 1}, {127, 64}, {1024, 1024}, {3, 500}, {50, 0}}) {
        batch.head.resize(positives);
        batch.relation.resize(positives);
        batch.tail.resize(positives);
        batch.negative.resize(negatives);
        for (auto& id : batch.head) id = random() % entities;
        for (auto& id : batch.tail) id = random() % entities;
        for (auto& id : batch.negative) id = random() % entities;
        for (auto& id : batch.relation) id = random() % relations;
        if (positives) batch.head[0] = entities - 1, batch.tail[0] = 0, batch.relation[0] = relations - 1;
        indexer.index(batch);
        expect_indexed(batch);
      }
    }
  }
}

TEST(BatchIndexer, RefusesIdsOutsideTheGraph) {
  for (const std::int64_t bad : {-1ll, 10ll, 1ll << 40}) {
    for (int field = 0; field < 4; ++field) {
      Batch batch;
      batch.head = batch.relation = batch.tail = batch.negative = {1, 2};
      (field == 0 ? batch.head : field == 1 ? batch.relation : field == 2 ? batch.tail : batch.negative)[1] = bad;
      EXPECT_THROW(BatchIndexer(10, 10).index(batch), std::out_of_range) << bad << " in field " << field;
    }
  }
}

TEST(BatchIndexer, RefusesUnequalLengths) {
  Batch batch;
  batch.head = batch.tail = {1, 2};
  batch.relation = {1};
  EXPECT_THROW(BatchIndexer(10, 10).index(batch), std::invalid_argument);
  EXPECT_THROW(BatchIndexer(0, 1), std::invalid_argument);
}

}  // namespace
}  // namespace frugal
