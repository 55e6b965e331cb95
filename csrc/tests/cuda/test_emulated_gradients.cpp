// The gradient kernels, run on a CPU, against the CPU's step.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "memory/row_layout.h"
#include "models/similarity/similarity.h"
#include "optim/mean_square.h"
#include "step/block_gradients.h"
#include "step/cuda/gradient_kernels.h"

namespace frugal::cuda {

void meet(const DeviceExchange&, std::uintptr_t) {}
void sum_parts(const DeviceExchange& exchange, std::int64_t count, float* to, std::uintptr_t) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = exchange.part[0][i] + exchange.part[1][i];
}

}  // namespace frugal::cuda

namespace frugal {
namespace {

constexpr int kEntities = 40, kTails = 5, kRelations = 4;  // few tails, so that a row has many occurrences

struct Sizes {
  std::int64_t chunk, chunks, negatives, dim;
  bool degree_negatives;
};

std::vector<std::int32_t> draw(std::int64_t count, int below, std::mt19937& random) {
  std::vector<std::int32_t> drawn(count);
  for (std::int32_t& each : drawn) each = static_cast<std::int32_t>(random() % below);
  return drawn;
}

// Lists the places of each value below `values`, one value after the other.
void list_occurrences(const std::vector<std::int32_t>& slots, int values, std::vector<std::int32_t>& offset,
                      std::vector<std::int32_t>& occurrence) {
  offset = {0};
  for (int value = 0; value < values; ++value) {
    for (std::size_t i = 0; i < slots.size(); ++i)
      if (slots[i] == value) occurrence.push_back(static_cast<std::int32_t>(i));
    offset.push_back(static_cast<std::int32_t>(occurrence.size()));
  }
}

struct Gradients {
  std::vector<float> positive, negative, relation, squares[3];
  std::array<double, 4> losses{};

  Gradients(std::int64_t dim, std::int64_t relation_dim, std::int64_t edges, std::int64_t negatives)
      : positive(kEntities * dim, 7.0f),
        negative(negatives * dim, 7.0f),
        relation(edges * relation_dim, 7.0f),
        squares{std::vector<float>(kEntities), std::vector<float>(negatives), std::vector<float>(edges)} {}
  cuda::DeviceGradients pointers(std::int64_t dim, std::int64_t relation_dim, float* workspace) {
    return {{positive.data(), dim}, {negative.data(), dim}, {relation.data(), relation_dim}, losses.data(), workspace,
            squares[0].data(), squares[1].data(), squares[2].data()};
  }
  // positive_offset: of the entities, of which some are no positive.
  void expect_squares(std::int64_t dim, std::int64_t relation_dim,
                      const std::vector<std::int32_t>& positive_offset) const {
    const auto expect = [](const std::vector<float>& rows, std::int64_t width, std::int64_t i, float square) {
      EXPECT_EQ(square, mean_square(&rows[i * width], width)) << "row " << i;
    };
    for (std::size_t u = 0; u < squares[0].size(); ++u)
      if (positive_offset[u + 1] > positive_offset[u]) expect(positive, dim, u, squares[0][u]);
    for (std::size_t i = 0; i < squares[1].size(); ++i) expect(negative, dim, i, squares[1][i]);
    for (std::size_t i = 0; i < squares[2].size(); ++i) expect(relation, relation_dim, i, squares[2][i]);
  }
};

// Records of which some still lie elsewhere: row u in slot (or row) count - 1 - u.
class Gathered {
 public:
  Gathered(const std::vector<float>& rows, std::int64_t dim, std::int64_t stride, std::int64_t count)
      : dim_(dim), count_(count), stride_(RowLayout::for_dim(dim).stride), wanted_(count * stride_),
        elsewhere_(wanted_.size(), 9.0f), records_(wanted_.size(), 9.0f) {
    for (std::int64_t u = 0; u < count; ++u) {
      std::copy_n(&rows[u * stride], dim, &wanted_[u * stride_]);
      wanted_[u * stride_ + dim] = 0.5f * u;  // state
      std::copy_n(&wanted_[u * stride_], dim + 1, &elsewhere_[(count - 1 - u) * stride_]);
      ids_.push_back(count - 1 - u);
    }
  }
  cuda::DeviceRows records() { return {records_.data(), stride_}; }
  cuda::RecordReads reads(ReadPart part) {
    RowMemory memory{dim_, stride_};
    (part == ReadPart::kAll ? memory.host_rows : memory.cache) = elsewhere_.data();
    for (std::int64_t u = 0; u < count_; ++u) {
      source_.push_back(part == ReadPart::kAll || u % 2 == 0 ? kFromHost : static_cast<std::int32_t>(ids_[u]));
      if (part == ReadPart::kCache && u % 2 == 0)  // came from the host before
        std::copy_n(&wanted_[u * stride_], dim_ + 1, &records_[u * stride_]);
    }
    return {memory, {ids_.data(), source_.data(), count_, part}};
  }
  void expect_all() const {
    for (std::int64_t u = 0; u < count_; ++u)
      EXPECT_TRUE(std::equal(&wanted_[u * stride_], &wanted_[u * stride_ + dim_ + 1], &records_[u * stride_])) << u;
  }

 private:
  const std::int64_t dim_, count_, stride_;
  std::vector<float> wanted_, elsewhere_, records_;
  std::vector<std::int64_t> ids_;
  std::vector<std::int32_t> source_;
};

// An exchange of two ranks, as if the other one had the same columns: its part is what this one writes for it to read.
class TwoRanks {
 public:
  // floats: of each region.
  TwoRanks(std::int64_t floats, bool near) {
    for (auto& part : parts_) part.resize(2 * floats + 16);
    exchange_.ranks = 2;
    exchange_.near = near;
    for (int rank = 0; rank < 2; ++rank) exchange_.part[rank] = aligned(parts_[rank]);
    exchange_.second = floats;
    exchange_.mirrors.count = 1;
    exchange_.mirrors.own = exchange_.own();
    exchange_.mirrors.at[0] = exchange_.part[1];
  }
  const cuda::DeviceExchange* get() const { return &exchange_; }
  // This rank's mean squares.
  void take_squares(Gradients& from) const {
    const float* next = exchange_.own() + exchange_.second;
    for (auto& each : from.squares) {
      std::copy_n(next, each.size(), each.begin());
      next += each.size();
    }
  }

 private:
  static float* aligned(std::vector<float>& floats) {
    return reinterpret_cast<float*>((reinterpret_cast<std::uintptr_t>(floats.data()) + 63) / 64 * 64);
  }
  std::vector<float> parts_[2];
  cuda::DeviceExchange exchange_{};
};

float twice(float x) { return 2.0f * x; }

void expect_same(const std::string& name, const Sizes& sizes, const LossSpec& loss, float scale, bool weighted,
                 std::mt19937& random, bool columns = false, bool near = false) {
  const std::int64_t edges = sizes.chunk * sizes.chunks, sampled = sizes.chunks * sizes.negatives, dim = sizes.dim;
  const ModelSpec model{name, dim, name == "RotatE" ? dim / 2 : dim, 12.0f, 2.0f};
  const std::int64_t relation_dim = model.relation_dim;
  const auto head = draw(edges, kEntities, random), tail = draw(edges, kTails, random);
  const auto relation = draw(edges, kRelations, random), negative = draw(sampled, kEntities, random);
  std::vector<std::int32_t> ends = head, positive_offset, positive, negative_offset, of_negatives;
  std::vector<std::int32_t> relation_offset, order;
  ends.insert(ends.end(), tail.begin(), tail.end());
  list_occurrences(ends, kEntities, positive_offset, positive);
  list_occurrences(negative, kEntities, negative_offset, of_negatives);
  list_occurrences(relation, kRelations, relation_offset, order);
  std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
  std::vector<float> weight(edges), entities(kEntities * (dim + 1)), relations(kRelations * relation_dim);
  for (float& each : weight) each = 1.5f + uniform(random);
  for (auto* table : {&entities, &relations})
    for (float& each : *table) each = scale * uniform(random);
  const std::int32_t counts[] = {kEntities, kRelations};
  const cuda::DeviceBatch batch{random() % 2 == 0,      edges,           sizes.chunk,         sizes.negatives,
                                kEntities,              kRelations,      counts,              head.data(),
                                tail.data(),            relation.data(), negative.data(),     positive_offset.data(),
                                positive.data(),        negative_offset.data(), of_negatives.data(),
                                relation_offset.data(), weighted ? weight.data() : nullptr};
  const cuda::DeviceRows from{entities.data(), dim + 1}, of{relations.data(), relation_dim};

  Gradients expected(dim, relation_dim, edges, sampled), actual = expected;
  TrainStep step(model, loss, 0.1f, sizes.degree_negatives, 1, kernels());
  GradientPass::AddColumns add_columns;
  if (columns)
    add_columns = [](float* values, std::int64_t count) { std::transform(values, values + count, values, twice); };
  compute_gradients(step, batch, from, of, expected.pointers(dim, relation_dim, nullptr), add_columns);
  constexpr std::int64_t kAlignment = 16;  // floats
  std::vector<float> memory(kAlignment + cuda::workspace_floats(model, sizes.degree_negatives, edges, sizes.chunk,
                                                                sizes.negatives));
  float* workspace = memory.data();
  while (reinterpret_cast<std::uintptr_t>(workspace) / sizeof(float) % kAlignment != 0) ++workspace;
  const TwoRanks ranks(static_cast<std::int64_t>(memory.size()) + 256, near);
  cuda::compute_gradients(model, loss, sizes.degree_negatives, batch, from, of, {}, {},
                          actual.pointers(dim, relation_dim, workspace), columns ? ranks.get() : nullptr, 0);
  if (columns) ranks.take_squares(actual);
  // The same with records that are still to be gathered: every other entity from a cache, all relations from a table.
  Gathered entity_rows(entities, dim, dim + 1, kEntities);
  Gathered relation_rows(relations, relation_dim, relation_dim, kRelations);
  Gradients gathered(dim, relation_dim, edges, sampled);
  cuda::compute_gradients(model, loss, sizes.degree_negatives, batch, entity_rows.records(), relation_rows.records(),
                          entity_rows.reads(ReadPart::kCache), relation_rows.reads(ReadPart::kAll),
                          gathered.pointers(dim, relation_dim, workspace), columns ? ranks.get() : nullptr, 0);

  SCOPED_TRACE(name + ", dim " + std::to_string(dim) + ", chunk " + std::to_string(sizes.chunk) + ", scale " +
               std::to_string(scale));
  EXPECT_TRUE(gathered.positive == actual.positive && gathered.negative == actual.negative);
  EXPECT_TRUE(gathered.relation == actual.relation && gathered.losses == actual.losses);
  entity_rows.expect_all();
  relation_rows.expect_all();
  EXPECT_TRUE(actual.positive == expected.positive);
  EXPECT_TRUE(actual.negative == expected.negative);
  EXPECT_TRUE(actual.relation == expected.relation);
  actual.expect_squares(dim, relation_dim, positive_offset);
  for (int part = 0; part < 4; ++part)
    EXPECT_NEAR(actual.losses[part], expected.losses[part], 2e-6 * std::abs(expected.losses[part]) + 1e-30);
}

class EmulatedGradients : public testing::TestWithParam<const char*> {};

TEST_P(EmulatedGradients, HaveTheBitsOfTheCpuWhereRanksHaveColumns) {
  std::mt19937 random(5);
  LossSpec adversarial;
  adversarial.adversarial = true;
  adversarial.regularization_coefficient = 1e-3f;
  for (const bool near : {false, true})
    for (const bool degree_negatives : {false, true})
      for (const Sizes& sizes : {Sizes{6, 3, 5, 22, degree_negatives}, Sizes{70, 2, 37, 50, degree_negatives}})
        expect_same(GetParam(), sizes, adversarial, 1.0f, false, random, true, near);
}

TEST_P(EmulatedGradients, HaveTheBitsOfTheCpu) {
  std::mt19937 random(3);
  LossSpec adversarial, pairwise, hinge, softmax;
  adversarial.adversarial = pairwise.pairwise = true;
  hinge.genre = LossGenre::kHinge;
  softmax.genre = LossGenre::kSoftmax;
  for (LossSpec* loss : {&adversarial, &pairwise, &hinge, &softmax}) loss->regularization_coefficient = 1e-3f;
  const std::string name = GetParam();
  for (const LossSpec& loss : {adversarial, pairwise, hinge, softmax})
    for (const bool degree_negatives : {false, true})
      expect_same(name, {6, 3, 5, 22, degree_negatives}, loss, 1.0f, degree_negatives, random);
  // More rows and columns than a tile, and none that fit one; then numbers whose squares are subnormal.
  for (const Sizes& sizes : {Sizes{70, 2, 37, 50, true}, Sizes{5, 2, 130, 128, false}, Sizes{33, 1, 40, 402, false}})
    for (const float scale : {1.0f, 1e-14f}) expect_same(name, sizes, adversarial, scale, false, random);
  // Positives that have negatives of their own.
  expect_same(name, {1, 7, 40, 50, false}, adversarial, 1.0f, false, random);
  // More negatives than a warp keeps, and more occurrences of a row than a block looks up at once.
  expect_same(name, {680, 1, 260, 6, false}, adversarial, 1.0f, false, random);
}

INSTANTIATE_TEST_SUITE_P(Models, EmulatedGradients,
                         testing::Values("TransE_l1", "TransE_l2", "DistMult", "ComplEx", "SimplE", "RotatE"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace frugal
