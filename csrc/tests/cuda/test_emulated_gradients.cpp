// The gradient kernels, run on a CPU, against the CPU's step.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "table/row_layout.h"
#include "models/similarity/similarity.h"
#include "table/mean_square.h"
#include "step/block_gradients.h"
#include "step/cuda/gradient_kernels.h"
#include "tests/at_once.h"

namespace {

// Ranks as threads of which one runs at a time, from one collective to the next.
class Turns {
 public:
  void run(int ranks, const std::function<void(int)>& body) {
    ranks_ = left_ = ranks;
    turn_ = 0;
    frugal::at_once(ranks, [&](int rank) {
      wait(rank);
      body(rank);
      --left_;
      give_on(rank);
    });
    EXPECT_EQ(left_, 0);
  }
  // Those with a lower number have come to the next collective, or to their end, when this returns.
  void pass_turn(int rank) {
    give_on(rank);
    wait(rank);
  }

 private:
  void give_on(int rank) {
    const std::lock_guard lock(mutex_);
    turn_ = (rank + 1) % ranks_;
    turned_.notify_all();
  }
  void wait(int rank) {
    std::unique_lock lock(mutex_);
    turned_.wait(lock, [&] { return turn_ == rank; });
  }

  std::mutex mutex_;
  std::condition_variable turned_;
  int ranks_ = 0, left_ = 0, turn_ = 0;
};

Turns turns;

}  // namespace

namespace frugal::cuda {

void barrier(const DeviceExchange& exchange, std::uintptr_t) { turns.pass_turn(exchange.rank); }

}  // namespace frugal::cuda

namespace frugal::emulated_gradients {
namespace {

constexpr float kUntouched = 7.0f;
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
      : positive(kEntities * dim, kUntouched),
        negative(negatives * dim, kUntouched),
        relation(edges * relation_dim, kUntouched),
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

// Over the length of `expected` where it has been written; 0: no bit differs.
double difference(const std::vector<float>& actual, const std::vector<float>& expected) {
  if (actual == expected) return 0.0;
  double square = 0, all = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double x = expected[i] == kUntouched ? 0.0 : expected[i];
    square += (actual[i] - static_cast<double>(expected[i])) * (actual[i] - expected[i]);
    all += x * x;
  }
  return all > 0 && square >= 0 ? std::sqrt(square / all) : INFINITY;
}

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

// The exchange of ranks with a device each, whose memory begins with numbers that nobody has written.
class DeviceRanks {
 public:
  DeviceRanks(int ranks, std::int64_t floats, bool near) : floats_((floats + 31) / 32 * 32) {
    const std::int64_t all = (2 * ranks + 1) * floats_;  // scores and squares of each, and weights
    for (int i = 0; i <= ranks; ++i) memory_.emplace_back(all + 32, 7.0f);
    float* const host = begin(ranks);
    for (int rank = 0; rank < ranks; ++rank) {
      cuda::DeviceExchange x{};
      x.rank = rank;
      x.ranks = ranks;
      x.near = near;
      x.weights.own = begin(rank);
      x.squares.own.own = squares(begin(rank), ranks, rank);
      for (int other = 0; other < ranks; ++other) {
        x.part[other] = scores(begin(rank), other);
        x.squares.of[other] = squares(near ? begin(rank) : host, ranks, other);
        x.to[other] = scores(other == rank || near ? begin(other) : host, rank);
        x.far_part[other] = near ? nullptr : scores(host, other);
        if (!near || other == rank) continue;
        x.weights.at[x.weights.count++] = begin(other);
        x.squares.own.at[x.squares.own.count++] = squares(begin(other), ranks, rank);
      }
      if (!near) x.weights.at[x.weights.count++] = host;
      exchanges_.push_back(x);
    }
  }
  const cuda::DeviceExchange& operator[](int rank) const { return exchanges_[rank]; }
  void take_squares(int rank, Gradients& from) const {
    const float* const own = exchanges_[rank].squares.own.own;
    const float* next = own;
    for (auto& each : from.squares) {
      std::copy_n(next, each.size(), each.begin());
      for (const cuda::DeviceExchange& other : exchanges_)  // each has them, where devices reach each other
        EXPECT_TRUE(!other.near || std::equal(each.begin(), each.end(), other.squares.of[rank] + (next - own)));
      next += each.size();
    }
  }

 private:
  float* begin(int device) {
    return reinterpret_cast<float*>((reinterpret_cast<std::uintptr_t>(memory_[device].data()) + 127) / 128 * 128);
  }
  float* scores(float* memory, int rank) const { return memory + (1 + rank) * floats_; }
  float* squares(float* memory, int ranks, int rank) const { return memory + (1 + ranks + rank) * floats_; }

  const std::int64_t floats_;
  std::vector<std::vector<float>> memory_;
  std::vector<cuda::DeviceExchange> exchanges_;
};

// What the other ranks have is known beforehand.
class KnownSums final : public ColumnRanks {
 public:
  std::vector<std::vector<float>> parts;
  std::vector<float> sums;  // empty: a part is added to the list

  void reduce_scatter(float* values, std::int64_t positives, std::int64_t width, std::int64_t common) override {
    const std::int64_t count = positives * width + common;
    if (sums.empty()) return parts.emplace_back(values, values + count), void();
    std::copy(sums.begin(), sums.end(), values);
  }
  void add_up() {
    sums = parts[0];
    for (std::size_t rank = 1; rank < parts.size(); ++rank)
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += parts[rank][i];
  }
};

// A batch, and the rows that a device has for it.
class Case {
 public:
  Case(const std::string& name, const Sizes& sizes, const LossSpec& loss, float scale, bool weighted,
       std::mt19937& random, cuda::Products products = cuda::Products::kFloat32)
      : model{name, sizes.dim, name == "RotatE" ? sizes.dim / 2 : sizes.dim, 12.0f, 2.0f},
        sizes(sizes),
        loss(loss),
        products(products),
        edges(sizes.chunk * sizes.chunks),
        sampled(sizes.chunks * sizes.negatives),
        head_(draw(edges, kEntities, random)),
        tail_(draw(edges, kTails, random)),
        relation_(draw(edges, kRelations, random)),
        negative_(draw(sampled, kEntities, random)),
        weight_(edges),
        scale_(scale) {
    std::vector<std::int32_t> ends = head_;
    ends.insert(ends.end(), tail_.begin(), tail_.end());
    list_occurrences(ends, kEntities, positive_offset, positive_);
    list_occurrences(negative_, kEntities, negative_offset_, of_negatives_);
    list_occurrences(relation_, kRelations, relation_offset_, order_);
    std::uniform_real_distribution<float> uniform(0.5f, 2.5f);
    for (float& each : weight_) each = uniform(random);
    batch = {random() % 2 == 0,        edges,
             sizes.chunk,              sizes.negatives,
             kEntities,                kRelations,
             counts_,                  head_.data(),
             tail_.data(),             relation_.data(),
             negative_.data(),         positive_offset.data(),
             positive_.data(),         negative_offset_.data(),
             of_negatives_.data(),     relation_offset_.data(),
             weighted ? weight_.data() : nullptr};
  }
  Case(const Case&) = delete;

  std::vector<float> draw_rows(std::int64_t count, std::int64_t floats, std::mt19937& random) const {
    std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
    std::vector<float> rows(count * floats);
    for (float& each : rows) each = scale_ * uniform(random);
    return rows;
  }
  Gradients gradients() const { return {model.entity_dim, model.relation_dim, edges, sampled}; }
  std::string text() const {
    return model.name + ", dim " + std::to_string(sizes.dim) + ", chunk " + std::to_string(sizes.chunk) + ", scale " +
           std::to_string(scale_);
  }

  const ModelSpec model;
  const Sizes sizes;
  const LossSpec loss;
  const cuda::Products products;
  const std::int64_t edges, sampled;
  std::vector<std::int32_t> positive_offset;
  cuda::DeviceBatch batch;

 private:
  const std::int32_t counts_[2] = {kEntities, kRelations};
  const std::vector<std::int32_t> head_, tail_, relation_, negative_;
  std::vector<std::int32_t> positive_, negative_offset_, of_negatives_, relation_offset_, order_;
  std::vector<float> weight_;
  const float scale_;
};

// What one device, or a rank's, has and computes.
class OneDevice {
 public:
  OneDevice(const Case& at, std::mt19937& random)
      : case_(at),
        step_(at.model, at.loss, 0.1f, at.sizes.degree_negatives, 1, kernels()),
        entities_(at.draw_rows(kEntities, at.model.entity_dim + 1, random)),
        relations_(at.draw_rows(kRelations, at.model.relation_dim, random)),
        memory_(kAlignment + cuda::workspace_floats(at.model, at.sizes.degree_negatives, at.edges, at.sizes.chunk,
                                                    at.sizes.negatives)) {}

  std::int64_t workspace_floats() const { return static_cast<std::int64_t>(memory_.size()); }

  // By the CPU.
  Gradients expected(ColumnRanks* ranks) {
    Gradients found = case_.gradients();
    compute_gradients(step_, case_.batch, entities(), relations(),
                      found.pointers(case_.model.entity_dim, case_.model.relation_dim, nullptr), ranks);
    return found;
  }

  // By the kernels, twice: from records, and from where records are gathered first: every other entity from a cache,
  // all relations from a table. ranks: or null.
  void expect(const Gradients& expected, const DeviceRanks* ranks, int rank) {
    const std::int64_t dim = case_.model.entity_dim, relation_dim = case_.model.relation_dim;
    Gathered entity_rows(entities_, dim, dim + 1, kEntities);
    Gathered relation_rows(relations_, relation_dim, relation_dim, kRelations);
    Gradients actual = case_.gradients(), gathered = case_.gradients();
    const auto compute = [&](cuda::DeviceRows from, cuda::DeviceRows of, const cuda::RecordReads& of_entities,
                             const cuda::RecordReads& of_relations, Gradients& to) {
      std::fill(memory_.begin(), memory_.end(), 0.0f);  // what the last call left might be right
      float* workspace = memory_.data();
      while (reinterpret_cast<std::uintptr_t>(workspace) / sizeof(float) % kAlignment != 0) ++workspace;
      cuda::compute_gradients(case_.model, case_.loss, case_.sizes.degree_negatives, case_.batch, from, of, of_entities,
                              of_relations, to.pointers(dim, relation_dim, workspace), case_.products,
                              ranks ? &(*ranks)[rank] : nullptr, 0);
      if (!ranks) return;
      ranks->take_squares(rank, to);
      turns.pass_turn(rank);  // as they do over mean squares
    };
    compute(entities(), relations(), {}, {}, actual);
    compute(entity_rows.records(), relation_rows.records(), entity_rows.reads(ReadPart::kCache),
            relation_rows.reads(ReadPart::kAll), gathered);

    SCOPED_TRACE(case_.text() + ", rank " + std::to_string(rank));
    EXPECT_TRUE(gathered.positive == actual.positive && gathered.negative == actual.negative);
    EXPECT_TRUE(gathered.relation == actual.relation && gathered.losses == actual.losses);
    entity_rows.expect_all();
    relation_rows.expect_all();
    actual.expect_squares(dim, relation_dim, case_.positive_offset);
    const bool exact = case_.products == cuda::Products::kFloat32;
    const double of_losses = case_.products == cuda::Products::kTf32 ? 1e-3 : 2e-6;
    for (int part = 0; part < 4; ++part)
      EXPECT_NEAR(actual.losses[part], expected.losses[part], of_losses * std::abs(expected.losses[part]) + 1e-30);
    const double bound = exact ? 0.0 : of_losses;
    EXPECT_LE(difference(actual.positive, expected.positive), bound);
    EXPECT_LE(difference(actual.negative, expected.negative), bound);
    EXPECT_LE(difference(actual.relation, expected.relation), bound);
    if (case_.products == cuda::Products::kTf32) {
      EXPECT_GT(difference(actual.negative, expected.negative), 2e-6);  // otherwise nothing was rounded
    }
  }

 private:
  static constexpr std::int64_t kAlignment = 16;  // floats

  cuda::DeviceRows entities() { return {entities_.data(), case_.model.entity_dim + 1}; }
  cuda::DeviceRows relations() { return {relations_.data(), case_.model.relation_dim}; }

  const Case& case_;
  TrainStep step_;
  std::vector<float> entities_, relations_, memory_;
};

void expect_same(const std::string& name, const Sizes& sizes, const LossSpec& loss, float scale, bool weighted,
                 std::mt19937& random, cuda::Products products = cuda::Products::kFloat32,
                 std::optional<bool> corrupt_head = {}) {
  Case at(name, sizes, loss, scale, weighted, random, products);
  if (corrupt_head) at.batch.corrupt_head = *corrupt_head;
  OneDevice device(at, random);
  device.expect(device.expected(nullptr), nullptr, 0);
}

// With rows of whole words, where tiles make the edges' gradients of columnwise models: fewer columns than a tile has,
// more than two have, and whole tiles; no more rows than a tile has, and more.
void expect_same_of_words(const std::string& name, cuda::Products products, std::mt19937& random) {
  for (const float norm : {0.0f, 2.0f, 2.5f, 3.0f})
    for (const bool corrupt_head : {false, true})
      for (const Sizes& sizes : {Sizes{6, 3, 5, 20, false}, Sizes{70, 1, 9, 124, false}, Sizes{65, 1, 33, 64, false}}) {
        LossSpec loss;
        loss.regularization_coefficient = 0.1f;
        loss.regularization_norm = norm;
        expect_same(name, sizes, loss, 1.0f, true, random, products, corrupt_head);
      }
}

// Ranks with other columns each, sizes.dim of them.
void expect_same_of_ranks(const std::string& name, const Sizes& sizes, const LossSpec& loss, int ranks, bool near,
                          std::mt19937& random, cuda::Products products = cuda::Products::kFloat32) {
  const Case at(name, sizes, loss, 1.0f, false, random, products);
  std::vector<std::unique_ptr<OneDevice>> devices;
  KnownSums sums;
  for (int rank = 0; rank < ranks; ++rank) {
    devices.push_back(std::make_unique<OneDevice>(at, random));
    devices.back()->expected(&sums);
  }
  sums.add_up();
  std::vector<Gradients> expected;
  for (auto& device : devices) expected.push_back(device->expected(&sums));
  const DeviceRanks memory(ranks, devices[0]->workspace_floats(), near);
  turns.run(ranks, [&](int rank) { devices[rank]->expect(expected[rank], &memory, rank); });
}

class EmulatedGradients : public ::testing::TestWithParam<const char*> {};

TEST_P(EmulatedGradients, HaveTheBitsOfTheCpuWhereRanksHaveColumns) {
  std::mt19937 random(5);
  LossSpec adversarial, pairwise;
  adversarial.adversarial = pairwise.pairwise = true;
  adversarial.regularization_coefficient = 1e-3f;
  for (const bool near : {false, true})
    for (const bool degree_negatives : {false, true}) {
      // Shares that end within chunks, and one of no positives.
      expect_same_of_ranks(GetParam(), {6, 3, 5, 22, degree_negatives}, adversarial, 2, near, random);
      expect_same_of_ranks(GetParam(), {7, 2, 6, 10, degree_negatives}, pairwise, 3, near, random);
      expect_same_of_ranks(GetParam(), {5, 1, 30, 12, degree_negatives}, adversarial, 4, near, random);
      if (near == degree_negatives)  // more rows and columns than a tile
        expect_same_of_ranks(GetParam(), {70, 2, 37, 20, degree_negatives}, adversarial, 2, near, random);
      if (!degree_negatives)  // as many as there are kernels of losses for
        expect_same_of_ranks(GetParam(), {3, 2, 256, 10, false}, adversarial, 2, near, random);
    }
}

TEST_P(EmulatedGradients, HaveTheBitsOfTheCpuWhereRowsAreWholeWords) {
  std::mt19937 random(9);
  expect_same_of_words(GetParam(), cuda::Products::kFloat32, random);
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
  for (const Sizes& sizes : {Sizes{70, 2, 37, 50, true}, Sizes{5, 2, 130, 128, false}, Sizes{33, 1, 40, 402, false},
                             Sizes{40, 1, 5, 200, false}})
    for (const float scale : {1.0f, 1e-14f}) expect_same(name, sizes, adversarial, scale, false, random);
  // As many negatives as there are kernels of losses for.
  for (const LossSpec& loss : {LossSpec{}, adversarial, pairwise}) {
    expect_same(name, {3, 2, 256, 20, false}, loss, 1.0f, true, random);
    expect_same(name, {6, 1, 250, 10, true}, loss, 1.0f, false, random);
  }
  // Positives that have negatives of their own.
  expect_same(name, {1, 7, 40, 50, false}, adversarial, 1.0f, false, random);
  // More negatives than a warp keeps, and more occurrences of a row than a block looks up at once.
  expect_same(name, {680, 1, 260, 6, false}, adversarial, 1.0f, false, random);
}

class EmulatedTensorGradients : public ::testing::TestWithParam<const char*> {};

TEST_P(EmulatedTensorGradients, AreNearThoseOfTheCpu) {
  std::mt19937 random(7);
  LossSpec adversarial;
  adversarial.adversarial = true;
  adversarial.regularization_coefficient = 1e-3f;
  for (const cuda::Products products : {cuda::Products::kTf32x3, cuda::Products::kTf32}) {
    for (const Sizes& sizes : {Sizes{5, 2, 130, 50, false}, Sizes{33, 1, 40, 402, true}})
      expect_same(GetParam(), sizes, adversarial, 1.0f, false, random, products);
    for (const bool near : {false, true})
      expect_same_of_ranks(GetParam(), {70, 2, 37, 20, near}, adversarial, 2, near, random, products);
  }
  expect_same_of_words(GetParam(), cuda::Products::kTf32x3, random);
}

INSTANTIATE_TEST_SUITE_P(Models, EmulatedTensorGradients,
                         ::testing::Values("TransE_l2", "DistMult", "ComplEx", "SimplE"),
                         [](const auto& info) { return std::string(info.param); });
INSTANTIATE_TEST_SUITE_P(Models, EmulatedGradients,
                         ::testing::Values("TransE_l1", "TransE_l2", "DistMult", "ComplEx", "SimplE", "RotatE"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace frugal::emulated_gradients
