// Whole steps on small random batches: threads, instruction sets, sanitizers. The mathematics is tested from Python.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "sampler/batch_indexer.h"
#include "step/train_step.h"

namespace frugal {
namespace {

constexpr std::int64_t kEntities = 40, kRelations = 5;

struct Sizes {
  const char* model;
  std::int64_t entity_dim, relation_dim;
  ScoreRule rule = ScoreRule::kTextbook;
};

// Rows that end exactly where their allocation does, so that a sanitizer sees every read beyond one.
class Table {
 public:
  Table(std::int64_t rows, std::int64_t dim, std::uint32_t seed) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
    for (std::int64_t i = 0; i < rows; ++i) {
      rows_.emplace_back(new float[dim + 1]);
      for (std::int64_t j = 0; j < dim; ++j) rows_.back()[j] = uniform(random);
      rows_.back()[dim] = 0.0f;
    }
  }
  std::vector<float*> rows(const std::vector<std::int64_t>& ids) const {
    std::vector<float*> out;
    for (const auto id : ids) out.push_back(rows_[id].get());
    return out;
  }
  bool equals(const Table& other, std::int64_t dim) const {
    for (std::size_t i = 0; i < rows_.size(); ++i)
      if (std::memcmp(rows_[i].get(), other.rows_[i].get(), (dim + 1) * sizeof(float)) != 0) return false;
    return true;
  }

 private:
  std::vector<std::unique_ptr<float[]>> rows_;
};

Batch make_batch(std::int64_t step, std::int64_t chunk, std::int64_t chunks, std::int64_t negatives) {
  std::mt19937 random(static_cast<std::uint32_t>(step));
  Batch batch;
  batch.step = step;
  batch.corrupt_head = step % 2 == 1;
  batch.chunk_size = chunk;
  batch.negatives_per_chunk = negatives;
  for (std::int64_t i = 0; i < chunk * chunks; ++i) {
    batch.head.push_back(random() % kEntities);
    batch.relation.push_back(random() % kRelations);
    batch.tail.push_back(random() % kEntities);
  }
  for (std::int64_t i = 0; i < chunks * negatives; ++i) batch.negative.push_back(random() % kEntities);
  BatchIndexer(kEntities, kRelations).index(batch);
  return batch;
}

struct Trained {
  Table entities, relations, projections;
  double loss = 0.0;
};

Trained train(const Sizes& sizes, int threads, const Kernels& kernels, bool degree_negatives) {
  const std::int64_t projection_dim =
      std::strcmp(sizes.model, "TransR") == 0 ? sizes.entity_dim * sizes.relation_dim : 0;
  Trained trained{Table(kEntities, sizes.entity_dim, 1), Table(kRelations, sizes.relation_dim, 2),
                  Table(kRelations, projection_dim, 3)};
  LossSpec loss;
  loss.adversarial = true;
  loss.regularization_coefficient = 1e-3f;
  TrainStep step({sizes.model, sizes.entity_dim, sizes.relation_dim, 12.0f, 0.5f, sizes.rule}, loss, 0.1f,
                 degree_negatives, threads, kernels);
  for (std::int64_t i = 0; i < 4; ++i) {
    const Batch batch =
        make_batch(i, 53, 2, 21 + i);  // more than a block, no multiple of anything, and buffers that grow
    const auto entities = trained.entities.rows(batch.entities), relations = trained.relations.rows(batch.relations),
               projections = trained.projections.rows(batch.relations);
    StepPointers rows{{entities.data(), entities.data()}, {relations.data(), relations.data()}, {}};
    if (projection_dim) rows.projections = {projections.data(), projections.data()};
    trained.loss += step.run(batch, rows).total;
  }
  return trained;
}

class TrainStepTest : public testing::TestWithParam<std::tuple<Sizes, bool>> {};

TEST_P(TrainStepTest, SameBitsWhateverComputes) {
  const auto& [sizes, degree_negatives] = GetParam();
  const Trained expected = train(sizes, 1, kernels(), degree_negatives);
  EXPECT_TRUE(std::isfinite(expected.loss));
  for (const char* set : {"baseline", "avx512"}) {
    if (!kernels(set)) continue;
    const Trained other = train(sizes, 4, *kernels(set), degree_negatives);
    EXPECT_EQ(other.loss, expected.loss) << set;
    EXPECT_TRUE(other.entities.equals(expected.entities, sizes.entity_dim)) << set;
    EXPECT_TRUE(other.relations.equals(expected.relations, sizes.relation_dim)) << set;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, TrainStepTest,
                         testing::Combine(testing::Values(Sizes{"TransE_l1", 37, 37}, Sizes{"TransE_l2", 48, 48},
                                                          Sizes{"DistMult", 17, 17}, Sizes{"ComplEx", 34, 34},
                                                          Sizes{"RotatE", 38, 19}, Sizes{"SimplE", 30, 30},
                                                          Sizes{"RESCAL", 9, 81}, Sizes{"RESCAL", 66, 4356},
                                                          Sizes{"TransR", 11, 18},
                                                          Sizes{"RESCAL", 66, 4356, ScoreRule::kDglke},
                                                          Sizes{"TransR", 11, 18, ScoreRule::kDglke}),
                                          testing::Bool()),
                         [](const auto& info) {
                           const Sizes& sizes = std::get<0>(info.param);
                           return sizes.model + std::to_string(sizes.entity_dim) +
                                  (sizes.rule == ScoreRule::kDglke ? "_dglke" : "") +
                                  (std::get<1>(info.param) ? "_degree" : "");
                         });

// As a step has it, whose heads' gradients take the place of those of queries.
TEST_P(TrainStepTest, AQuerysGradientMayLieInThatOfTheHead) {
  const auto& [sizes, degree_negatives] = GetParam();
  const auto model = make_model({sizes.model, sizes.entity_dim, sizes.relation_dim, 12.0f, 0.5f, sizes.rule});
  if (model->projected()) return;  // its step keeps them apart
  const std::int64_t dim = sizes.entity_dim, room = dim + 16;
  const Table entities(2, dim, 1), relations(1, sizes.relation_dim, 2), of_query(1, room, 3);
  const float* const gradient = of_query.rows({0})[0];
  const auto backward = [&](bool corrupt_head, bool in_head) {
    std::vector<float> head(gradient, gradient + room), tail(room), relation(model->relation_gradient_floats() + 16);
    model->backward({entities.rows({0})[0], relations.rows({0})[0], entities.rows({1})[0]}, corrupt_head, 0.5f, 0.25f,
                    in_head ? head.data() : gradient, {head.data(), relation.data(), tail.data()});
    head.resize(dim), tail.resize(dim);
    return std::tuple(head, tail, relation);
  };
  for (const bool corrupt_head : {false, true}) EXPECT_EQ(backward(corrupt_head, true), backward(corrupt_head, false));
}

TEST(TrainStep, EarlyRowsAreUpdatedBeforeTheOthersAndNoneTwice) {
  constexpr std::int64_t kDim = 24;
  const Batch batch = make_batch(0, 20, 2, 9);
  const std::size_t count = batch.entities.size();
  const auto train = [&](const std::vector<std::uint8_t>* early, const std::function<void(const Table&)>& early_done) {
    Table entities(kEntities, kDim, 1), relations(kRelations, kDim, 2);
    const auto entity_rows = entities.rows(batch.entities), relation_rows = relations.rows(batch.relations);
    StepPointers rows{{entity_rows.data(), entity_rows.data()}, {relation_rows.data(), relation_rows.data()}, {}};
    if (early) rows.entities.early = early->data();
    TrainStep step({"TransE_l2", kDim, kDim, 12.0f, 0.5f}, {}, 0.1f, false, 3, kernels());
    step.run(batch, rows, early_done ? [&] { early_done(entities); } : std::function<void()>());
    EXPECT_TRUE(!relations.equals(Table(kRelations, kDim, 2), kDim));
    return entities;
  };
  const Table before(kEntities, kDim, 1), expected = train(nullptr, {});
  std::vector<std::uint8_t> some(count), none(count);
  for (std::size_t u = 0; u < count; ++u) some[u] = u % 3 == 0;
  for (const auto* early : {static_cast<const std::vector<std::uint8_t>*>(nullptr), &std::as_const(none),
                            &std::as_const(some)}) {
    int calls = 0;
    const Table trained = train(early, [&](const Table& entities) {
      ++calls;
      for (std::size_t u = 0; u < count; ++u) {
        const auto row = [&](const Table& of) { return of.rows({batch.entities[u]})[0]; };
        const Table& then = early && (*early)[u] ? expected : before;
        EXPECT_EQ(std::memcmp(row(entities), row(then), (kDim + 1) * sizeof(float)), 0) << u;
      }
    });
    EXPECT_EQ(calls, 1);
    EXPECT_TRUE(trained.equals(expected, kDim));
  }
}

TEST(TrainStep, RefusesWhatMakesNoSense) {
  EXPECT_THROW(TrainStep({"TransX", 8, 8, 12.0f, 0.5f}, {}, 0.1f, false, 1, kernels()), std::invalid_argument);
  EXPECT_THROW(TrainStep({"TransE_l2", 8, 9, 12.0f, 0.5f}, {}, 0.1f, false, 1, kernels()), std::invalid_argument);
  EXPECT_THROW(TrainStep({"RotatE", 8, 8, 12.0f, 0.5f}, {}, 0.1f, false, 1, kernels()), std::invalid_argument);
  EXPECT_THROW(TrainStep({"TransE_l2", 8, 8, 12.0f, 0.5f}, {}, 0.1f, false, 0, kernels()), std::invalid_argument);
  LossSpec both;
  both.pairwise = both.adversarial = true;
  EXPECT_THROW(TrainStep({"TransE_l2", 8, 8, 12.0f, 0.5f}, both, 0.1f, false, 1, kernels()), std::invalid_argument);
}

}  // namespace
}  // namespace frugal
