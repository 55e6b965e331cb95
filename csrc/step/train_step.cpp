#include "step/train_step.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>
#include <stdexcept>

#include "optim/row_adagrad.h"
#include "step/regularization.h"
#include "step/tasks.h"

namespace frugal {
namespace {

constexpr std::int64_t kVector = 16;
constexpr std::int64_t kBlock = 48;         // rows of a task: a multiple of every tile's height
constexpr std::int64_t kEdges = 32;         // edges of a task
constexpr std::int64_t kUniqueRows = 16;    // updated rows of a task

std::int64_t pieces(std::int64_t count, std::int64_t size) { return (count + size - 1) / size; }

// Asks for a row that is needed soon: rows lie scattered in memory, and the processor cannot guess where the next one is.
void prefetch_row(const float* row, std::int64_t dim) {
  for (std::int64_t i = 0; i < dim; i += kVector) __builtin_prefetch(row + i);
}

void add_to(float* __restrict sum, const float* __restrict x, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) sum[i] += x[i];
}

}  // namespace

// What follows from a batch's sizes.
struct TrainStep::Shape {
  std::int64_t positives, chunks, chunk_size, negatives;
  std::int64_t own;            // columns of the chunk's own side: chunk_size or 0
  std::int64_t columns;        // own + negatives
  std::int64_t vectors;        // columns in vectors
  std::int64_t weight_stride;
};

// What a worker needs for itself.
struct TrainStep::Scratch {
  Buffer slope, gradients, row, sum;
};

TrainStep::TrainStep(const ModelSpec& model, const LossSpec& loss, float learning_rate, bool degree_negatives, ThreadPool& pool,
                     const Kernels& kernels)
    : model_(make_model(model)),
      loss_(loss),
      learning_rate_(learning_rate),
      degree_negatives_(degree_negatives),
      pool_(pool),
      kernels_(kernels),
      entity_dim_(model.entity_dim),
      relation_dim_(model.relation_dim),
      relation_gradient_floats_(model_->relation_gradient_floats()),
      entity_stride_(padded_stride(entity_dim_ + kVector)),  // kernels read whole vectors, also from a row's second half
      relation_stride_(padded_stride(relation_gradient_floats_)),
      scratch_(pool.threads()) {
  if (loss.pairwise && loss.adversarial) throw std::invalid_argument("a pairwise loss has no adversarial weights");
  for (auto& scratch : scratch_) {
    scratch.gradients.reserve(kBlock * entity_stride_);
    scratch.row.reserve(std::max(entity_stride_, padded_stride(relation_dim_)));
    scratch.sum.reserve(std::max(entity_stride_, padded_stride(relation_dim_)));
  }
}

TrainStep::~TrainStep() = default;

void TrainStep::reserve(const Shape& s) {
  query_.reserve(s.positives * entity_stride_);
  negative_.reserve(s.chunks * s.columns * entity_stride_);
  panel_.reserve(s.chunks * s.vectors * kVector * entity_dim_);
  negative_square_.reserve(s.chunks * s.vectors * kVector);
  weight_.reserve(s.positives * s.weight_stride);
  head_gradient_.reserve(s.positives * entity_stride_);
  tail_gradient_.reserve(s.positives * entity_stride_);
  relation_gradient_.reserve(s.positives * relation_stride_);
  negative_gradient_.reserve(s.chunks * s.negatives * entity_stride_);
  for (auto& scratch : scratch_) scratch.slope.reserve(s.weight_stride);
  const auto positives = static_cast<std::size_t>(s.positives);
  for (auto* each : {&positive_score_, &memo_, &query_square_}) each->resize(positives);
  for (auto* each : {&positive_loss_, &negative_loss_}) each->resize(positives);
}

Triple TrainStep::triple(const Batch& batch, std::int64_t edge) const {
  return {entities_.source[batch.head_slot[edge]], relations_.source[batch.relation_slot[edge]],
          entities_.source[batch.tail_slot[edge]]};
}

StepLosses TrainStep::run(const Batch& batch, const RowPointers& entities, const RowPointers& relations) {
  Shape s{};
  s.positives = batch.positives();
  s.chunks = batch.chunks();
  s.chunk_size = batch.chunk_size;
  s.negatives = batch.negatives_per_chunk;
  s.own = degree_negatives_ ? s.chunk_size : 0;
  s.columns = s.own + s.negatives;
  s.vectors = pieces(s.columns, kVector);
  s.weight_stride = padded_stride(s.vectors * kVector);
  if (s.positives == 0 || s.columns == 0 || s.chunks * s.chunk_size != s.positives)
    throw std::invalid_argument("a batch needs whole chunks of positives, and negatives");
  reserve(s);
  entities_ = entities;
  relations_ = relations;
  const auto unique_entities = static_cast<std::int64_t>(batch.entities.size());
  const auto unique_relations = static_cast<std::int64_t>(batch.relations.size());
  entity_regularization_.assign(unique_entities, 0.0);
  relation_regularization_.assign(unique_relations, 0.0);

  int phase = 0;
  const auto timed = [&](std::int64_t tasks, auto body) {
    const auto start = std::chrono::steady_clock::now();
    for_tasks(pool_, tasks, body);
    const auto spent = std::chrono::steady_clock::now() - start;
    phase_nanoseconds_[phase++] += std::chrono::duration_cast<std::chrono::nanoseconds>(spent).count();
  };

  const std::int64_t edge_tasks = pieces(s.positives, kEdges), panels = s.chunks * s.vectors;
  timed(edge_tasks + panels, [&](std::int64_t task, int) {
    if (task >= edge_tasks) return pack_negatives(batch, s, (task - edge_tasks) / s.vectors, (task - edge_tasks) % s.vectors);
    const std::int64_t end = std::min(s.positives, (task + 1) * kEdges);
    // In the order of relations, so that a large relation row is read once for all its edges.
    for (std::int64_t i = task * kEdges; i < end; ++i) {
      if (i + 1 < end) prefetch_edge(batch, batch.relation_occurrence[i + 1]);
      prepare_edge(batch, batch.relation_occurrence[i]);
    }
  });

  const std::int64_t query_blocks = pieces(s.chunk_size, kBlock);
  timed(s.chunks * query_blocks, [&](std::int64_t task, int worker) {
    const std::int64_t first = task % query_blocks * kBlock;
    score_queries(batch, s, task / query_blocks, first, std::min(kBlock, s.chunk_size - first), scratch_[worker]);
  });

  // Blocks of negatives do not cross from the chunk's own side to the sampled ones: their gradients go to different places.
  const std::int64_t own_blocks = pieces(s.own, kBlock), blocks = own_blocks + pieces(s.negatives, kBlock);
  const std::int64_t negative_tasks = s.chunks * blocks;
  timed(negative_tasks + pieces(unique_relations, kUniqueRows), [&](std::int64_t task, int worker) {
    Scratch& scratch = scratch_[worker];
    if (task < negative_tasks) {
      const std::int64_t block = task % blocks;
      const bool own = block < own_blocks;
      const std::int64_t first = own ? block * kBlock : s.own + (block - own_blocks) * kBlock;
      return differentiate_negatives(batch, s, task / blocks, first, std::min(kBlock, (own ? s.own : s.columns) - first),
                                     scratch);
    }
    const std::int64_t first = (task - negative_tasks) * kUniqueRows;
    for (std::int64_t r = first; r < std::min(unique_relations, first + kUniqueRows); ++r) update_relation(batch, r, scratch);
  });

  timed(pieces(unique_entities, kUniqueRows), [&](std::int64_t task, int worker) {
    const std::int64_t end = std::min(unique_entities, (task + 1) * kUniqueRows);
    for (std::int64_t u = task * kUniqueRows; u < end; ++u) {
      if (u + 1 < end) prefetch_row(entities_.source[u + 1], entity_dim_);
      update_entity(batch, u, scratch_[worker]);
    }
  });
  return sum_losses(batch);
}

void TrainStep::prefetch_edge(const Batch& batch, std::int64_t edge) const {
  const Triple next = triple(batch, edge);
  prefetch_row(next.head, entity_dim_);
  prefetch_row(next.tail, entity_dim_);
  prefetch_row(next.relation, std::min(relation_dim_, entity_dim_));
}

void TrainStep::prepare_edge(const Batch& batch, std::int64_t edge) {
  float* query = query_.data() + edge * entity_stride_;
  positive_score_[edge] = model_->forward(triple(batch, edge), batch.corrupt_head, query, &memo_[edge]);
  if (model_->similarity() == Similarity::kL2) query_square_[edge] = kernels_.dot(query, query, entity_dim_);
}

void TrainStep::pack_negatives(const Batch& batch, const Shape& s, std::int64_t chunk, std::int64_t panel) {
  const float* rows[kVector];
  const auto& own_slot = batch.corrupt_head ? batch.head_slot : batch.tail_slot;
  const auto source = [&](std::int64_t column) {
    return entities_.source[column < s.own ? own_slot[chunk * s.chunk_size + column]
                                           : batch.negative_slot[chunk * s.negatives + column - s.own]];
  };
  for (std::int64_t l = 0; l < kVector; ++l) {
    const std::int64_t column = std::min(panel * kVector + l, s.columns - 1);  // the last one fills up the panel
    float* copy = negative_.data() + (chunk * s.columns + column) * entity_stride_;
    if (column == panel * kVector + l) {
      if (column + 1 < s.columns) prefetch_row(source(column + 1), entity_dim_);
      std::memcpy(copy, source(column), entity_dim_ * sizeof(float));
      if (model_->similarity() == Similarity::kL2)
        negative_square_.data()[chunk * s.vectors * kVector + column] = kernels_.dot(copy, copy, entity_dim_);
    }
    rows[l] = copy;
  }
  kernels_.pack(rows, entity_dim_, panel_.data() + (chunk * s.vectors + panel) * kVector * entity_dim_);
}

void TrainStep::score_queries(const Batch& batch, const Shape& s, std::int64_t chunk, std::int64_t first, std::int64_t count,
                              Scratch& scratch) {
  const std::int64_t first_edge = chunk * s.chunk_size + first;
  const Rows query{query_.data() + first_edge * entity_stride_, entity_stride_};
  const Rows weight{weight_.data() + first_edge * s.weight_stride, s.weight_stride};
  kernels_.compare(model_->similarity(), count, s.vectors, entity_dim_, query,
                   panel_.data() + chunk * s.vectors * kVector * entity_dim_, weight);

  QueryRow row{};
  row.slope = scratch.slope.data();
  row.negatives = s.columns;
  row.vectors = s.vectors;
  row.negative_square = negative_square_.data() + chunk * s.vectors * kVector;
  row.gamma = model_->spec().gamma;
  const float per_positive = (loss_.pairwise ? 1.0f : 0.5f) / static_cast<float>(s.positives);
  float score_gradient[kBlock];
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t edge = first_edge + i;
    const float importance = batch.weight.empty() ? 1.0f : batch.weight[edge];
    row.values = weight[i];
    row.own = degree_negatives_ ? first + i : -1;
    row.query_square = query_square_[edge];
    row.positive_score = positive_score_[edge];
    row.scale = importance * per_positive;
    const QueryLoss negatives = kernels_.score(model_->similarity(), loss_, row);
    negative_loss_[edge] = static_cast<double>(importance) * negatives.loss;
    if (loss_.pairwise) {
      positive_loss_[edge] = 0.0;
      score_gradient[i] = negatives.positive_derivative;
    } else {
      const LossValue positive = kernels_.positive(loss_, positive_score_[edge]);
      positive_loss_[edge] = static_cast<double>(importance) * positive.loss;
      score_gradient[i] = row.scale * positive.derivative;
    }
  }

  const Rows negative{negative_.data() + chunk * s.columns * entity_stride_, entity_stride_};
  const Rows query_gradient{scratch.gradients.data(), entity_stride_};
  kernels_.gradient(model_->similarity(), count, s.columns, entity_dim_, query, negative, weight.data, s.weight_stride, 1,
                    query_gradient);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t edge = first_edge + i;
    model_->backward(triple(batch, edge), batch.corrupt_head, memo_[edge], score_gradient[i], query_gradient[i],
                     {head_gradient_.data() + edge * entity_stride_, relation_gradient_.data() + edge * relation_stride_,
                      tail_gradient_.data() + edge * entity_stride_});
  }
}

void TrainStep::differentiate_negatives(const Batch& batch, const Shape& s, std::int64_t chunk, std::int64_t first,
                                        std::int64_t count, Scratch& scratch) {
  const std::int64_t first_edge = chunk * s.chunk_size;
  const Rows negative{negative_.data() + (chunk * s.columns + first) * entity_stride_, entity_stride_};
  const Rows query{query_.data() + first_edge * entity_stride_, entity_stride_};
  const float* weight = weight_.data() + first_edge * s.weight_stride + first;
  const bool own = first < s.own;
  Rows out{scratch.gradients.data(), entity_stride_};
  if (!own) out.data = negative_gradient_.data() + (chunk * s.negatives + first - s.own) * entity_stride_;
  kernels_.gradient(model_->similarity(), count, s.chunk_size, entity_dim_, negative, query, weight, 1, s.weight_stride, out);
  if (!own) return;
  float* positives = (batch.corrupt_head ? head_gradient_ : tail_gradient_).data() + (first_edge + first) * entity_stride_;
  for (std::int64_t i = 0; i < count; ++i) add_to(positives + i * entity_stride_, out[i], entity_dim_);
}

void TrainStep::update_relation(const Batch& batch, std::int64_t relation, Scratch& scratch) {
  const RowAdagrad adagrad{learning_rate_};
  const float* source = relations_.source[relation];
  float* row = relations_.destination[relation];
  const std::int32_t begin = batch.relation_offset[relation], end = batch.relation_offset[relation + 1];
  float* penalty = scratch.row.data();
  if (loss_.regularized())
    relation_regularization_[relation] = (end - begin) * regularize(loss_, source, relation_dim_, penalty);
  if (row != source) std::memcpy(row, source, (relation_dim_ + 1) * sizeof(float));

  // Where the gradient is kept in factors it is made twice, for the state and for the update, rather than stored.
  const bool kept = relation_gradient_floats_ == relation_dim_;
  const auto gradient_of = [&](std::int32_t occurrence, bool first_time) {
    float* stored = relation_gradient_.data() + batch.relation_occurrence[occurrence] * relation_stride_;
    float* gradient = model_->expand(stored, scratch.sum.data());
    if (loss_.regularized() && (first_time || !kept)) add_to(gradient, penalty, relation_dim_);
    return gradient;
  };
  for (std::int32_t o = begin; o < end; ++o) adagrad.accumulate(row[relation_dim_], gradient_of(o, true), relation_dim_);
  for (std::int32_t o = begin; o < end; ++o) adagrad.apply(row, row[relation_dim_], gradient_of(o, false), relation_dim_);
}

void TrainStep::update_entity(const Batch& batch, std::int64_t entity, Scratch& scratch) {
  const RowAdagrad adagrad{learning_rate_};
  const float* source = entities_.source[entity];
  float* row = entities_.destination[entity];
  const std::int32_t first_positive = batch.positive_offset[entity], last_positive = batch.positive_offset[entity + 1];
  const std::int32_t first_negative = batch.negative_offset[entity], last_negative = batch.negative_offset[entity + 1];
  float* penalty = scratch.row.data();
  if (loss_.regularized()) {
    const std::int32_t reads = (last_positive > first_positive) + (last_negative - first_negative);
    entity_regularization_[entity] = reads * regularize(loss_, source, entity_dim_, penalty);
  }
  if (row != source) std::memcpy(row, source, (entity_dim_ + 1) * sizeof(float));
  float& state = row[entity_dim_];

  if (last_positive > first_positive) {
    const std::int64_t positives = batch.positives();
    const auto gradient_of = [&](std::int32_t o) {
      const std::int64_t end = batch.positive_occurrence[o];
      return end < positives ? head_gradient_.data() + end * entity_stride_
                             : tail_gradient_.data() + (end - positives) * entity_stride_;
    };
    float* sum = gradient_of(first_positive);  // read by nobody else
    for (std::int32_t o = first_positive + 1; o < last_positive; ++o) add_to(sum, gradient_of(o), entity_dim_);
    if (loss_.regularized()) add_to(sum, penalty, entity_dim_);
    adagrad.accumulate(state, sum, entity_dim_);
    adagrad.apply(row, state, sum, entity_dim_);
  }

  const auto negative = [&](std::int32_t o) {
    return negative_gradient_.data() + batch.negative_occurrence[o] * entity_stride_;
  };
  for (std::int32_t o = first_negative; o < last_negative; ++o) {
    if (loss_.regularized()) add_to(negative(o), penalty, entity_dim_);
    adagrad.accumulate(state, negative(o), entity_dim_);
  }
  for (std::int32_t o = first_negative; o < last_negative; ++o) adagrad.apply(row, state, negative(o), entity_dim_);
}

StepLosses TrainStep::sum_losses(const Batch& batch) const {
  const auto mean = [&](const std::vector<double>& x) {
    return std::accumulate(x.begin(), x.begin() + batch.positives(), 0.0) / static_cast<double>(batch.positives());
  };
  const double positive = mean(positive_loss_), negative = mean(negative_loss_);
  const double penalty = loss_.regularization_coefficient *
                         (std::accumulate(entity_regularization_.begin(), entity_regularization_.end(), 0.0) +
                          std::accumulate(relation_regularization_.begin(), relation_regularization_.end(), 0.0));
  if (loss_.pairwise) return {0.0, 0.0, penalty, negative + penalty};
  return {positive, negative, penalty, 0.5 * (positive + negative) + penalty};
}

}  // namespace frugal
