#include "step/row_updates.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "optim/row_adagrad.h"
#include "step/regularization.h"
#include "step/shape.h"

namespace frugal {
namespace {

using FRUGAL_ISA::regularize;

// What a step does to one row: applies its entries by row-wise Adagrad, or hands its gradients over.
class RowChange {
 public:
  RowChange(const RowPointers& rows, std::int64_t slot, std::int64_t dim, float learning_rate)
      : adagrad_{learning_rate},
        dim_(dim),
        row_(rows.destination[slot]),
        handed_over_(rows.gradient == nullptr ? nullptr : rows.gradient[slot]),
        stride_(rows.gradient_stride) {
    if (handed_over_ == nullptr && row_ != rows.source[slot])
      std::memcpy(row_, rows.source[slot], (dim + 1) * sizeof(float));
  }

  // The next entry. gradient_of(i) is called once or twice for each occurrence i in [begin, end); what it returns stays
  // until its next call.
  template <typename GradientOf>
  void entry(std::int32_t begin, std::int32_t end, GradientOf gradient_of) {
    if (handed_over_ != nullptr) {
      for (std::int32_t i = begin; i < end; ++i, handed_over_ += stride_)
        std::memcpy(handed_over_, gradient_of(i), dim_ * sizeof(float));
      return;
    }
    if (end - begin == 1) {  // as most have: the gradient is made once
      const float* gradient = gradient_of(begin);
      adagrad_.accumulate(row_[dim_], gradient, dim_);
      adagrad_.apply(row_, row_[dim_], gradient, dim_);
      return;
    }
    for (std::int32_t i = begin; i < end; ++i) adagrad_.accumulate(row_[dim_], gradient_of(i), dim_);
    for (std::int32_t i = begin; i < end; ++i) adagrad_.apply(row_, row_[dim_], gradient_of(i), dim_);
  }

 private:
  const RowAdagrad adagrad_;
  const std::int64_t dim_;
  float* const row_;
  float* handed_over_;  // where the next gradient goes; nullptr: the row is updated
  const std::int64_t stride_;
};

}  // namespace

RowUpdates::RowUpdates(const Model& model, const LossSpec& loss, float learning_rate, int workers)
    : model_(model),
      loss_(loss),
      learning_rate_(learning_rate),
      entity_dim_(model.spec().entity_dim),
      relation_dim_(model.spec().relation_dim),
      projection_dim_(model.projected() ? entity_dim_ * relation_dim_ : 0),
      scratch_(workers) {
  for (auto& scratch : scratch_) {
    scratch.penalty.reserve(std::max(entity_dim_, relation_dim_));
    scratch.gradient.reserve(std::max(relation_dim_, projection_dim_));
  }
}

void RowUpdates::start(const Batch& batch) {
  entity_regularization_.assign(batch.entities.size(), 0.0);
  relation_regularization_.assign(batch.relations.size(), 0.0);
}

void RowUpdates::update_entity(const Batch& batch, const StepPointers& rows, std::int64_t entity,
                               LeafGradients& gradients, int worker) {
  const std::int32_t first = batch.positive_offset[entity], last = batch.positive_offset[entity + 1];
  const std::int32_t first_negative = batch.negative_offset[entity], last_negative = batch.negative_offset[entity + 1];
  float* penalty = scratch_[worker].penalty.data();
  if (loss_.regularized()) {
    const std::int32_t reads = (last > first) + (last_negative - first_negative);
    const double sum = regularize(loss_, rows.entities.source[entity], entity_dim_, penalty);
    entity_regularization_[entity] = reads * sum;
    for (std::int32_t o = first_negative; o < last_negative; ++o)
      add_to(gradients.negative[batch.negative_occurrence[o]], penalty, entity_dim_);
  }
  RowChange row(rows.entities, entity, entity_dim_, learning_rate_);
  if (last > first) {
    const auto end_of = [&](std::int32_t o) {
      const std::int64_t end = batch.positive_occurrence[o], positives = batch.positives();
      return end < positives ? gradients.head[end] : gradients.tail[end - positives];
    };
    float* sum = end_of(first);  // read by nobody else
    for (std::int32_t o = first + 1; o < last; ++o) add_to(sum, end_of(o), entity_dim_);
    if (loss_.regularized()) add_to(sum, penalty, entity_dim_);
    row.entry(0, 1, [&](std::int32_t) { return sum; });
  }
  row.entry(first_negative, last_negative,
            [&](std::int32_t o) { return gradients.negative[batch.negative_occurrence[o]]; });
}

void RowUpdates::update_relation(const Batch& batch, const StepPointers& rows, std::int64_t relation,
                                 LeafGradients& gradients, int worker) {
  const std::int32_t begin = batch.relation_offset[relation], end = batch.relation_offset[relation + 1];
  float* penalty = scratch_[worker].penalty.data();
  if (loss_.regularized()) {
    const double sum = regularize(loss_, rows.relations.source[relation], relation_dim_, penalty);
    relation_regularization_[relation] = (end - begin) * sum;
  }
  RowChange row(rows.relations, relation, relation_dim_, learning_rate_);
  // A gradient that is kept in factors is made anew each time it is needed, in scratch, so its stored form stays as it
  // is.
  const auto gradient_of = [&](std::int32_t o) {
    float* gradient = scratch_[worker].gradient.data();
    model_.expand(gradients.relation[batch.relation_occurrence[o]], gradient);
    if (loss_.regularized()) add_to(gradient, penalty, relation_dim_);
    return gradient;
  };
  row.entry(begin, end, gradient_of);
}

void RowUpdates::update_projection(const Batch& batch, const StepPointers& rows, std::int64_t relation,
                                   LeafGradients& gradients, int worker) {
  const std::int32_t begin = batch.relation_offset[relation], end = batch.relation_offset[relation + 1];
  RowChange row(rows.projections, relation, projection_dim_, learning_rate_);
  row.entry(begin, end, [&](std::int32_t o) {
    const float* left = gradients.projection_factors[batch.relation_occurrence[o]];
    const float* right = left + entity_dim_;
    float* gradient = scratch_[worker].gradient.data();
    for (std::int64_t i = 0; i < entity_dim_; ++i)
      for (std::int64_t j = 0; j < relation_dim_; ++j) gradient[i * relation_dim_ + j] = left[i] * right[j];
    return gradient;
  });
  row.entry(begin, end, [&](std::int32_t o) { return gradients.projection[batch.relation_occurrence[o]]; });
}

double RowUpdates::regularization() const {
  const auto sum = [](const std::vector<double>& x) { return std::accumulate(x.begin(), x.end(), 0.0); };
  return loss_.regularization_coefficient * (sum(entity_regularization_) + sum(relation_regularization_));
}

}  // namespace frugal
