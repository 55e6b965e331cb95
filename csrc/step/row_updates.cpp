#include "step/row_updates.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/linalg/matrix.h"
#include "step/regularization.h"
#include "step/shape.h"
#include "table/row_adagrad.h"

namespace frugal {
namespace {

using FRUGAL_ISA::broadcast;
using FRUGAL_ISA::fill_range;
using FRUGAL_ISA::regularize;

// Floats of a gradient that are made at a time, where it is kept in factors: few enough for the first cache.
constexpr std::int64_t kPiece = 4 * kSumRun;

// The step's work on one row: it applies its entries by row-wise Adagrad, or returns its gradients.
class RowChange {
 public:
  RowChange(const RowPointers& rows, std::int64_t slot, std::int64_t dim, float learning_rate)
      : adagrad_{learning_rate},
        dim_(dim),
        row_(rows.destination[slot]),
        next_gradient_(rows.gradient == nullptr ? nullptr : rows.gradient[slot]),
        stride_(rows.gradient_stride) {
    if (next_gradient_ == nullptr && row_ != rows.source[slot])
      std::memcpy(row_, rows.source[slot], (dim + 1) * sizeof(float));
  }

  // The next entry: occurrences [begin, end). piece_of(o, first, count) points to elements [first, first + count) of
  // occurrence o's gradient until its next call, at most kPiece of them; each may be asked for twice.
  template <typename PieceOf>
  void entry(std::int32_t begin, std::int32_t end, PieceOf piece_of) {
    if (next_gradient_ != nullptr) {
      for (std::int32_t o = begin; o < end; ++o, next_gradient_ += stride_)
        for_pieces([&](std::int64_t first, std::int64_t count) {
          std::memcpy(next_gradient_ + first, piece_of(o, first, count), count * sizeof(float));
        });
      return;
    }
    if (end - begin == 1 && dim_ <= kPiece) {  // as most have: the gradient is made once
      const float* gradient = piece_of(begin, 0, dim_);
      adagrad_.accumulate(row_[dim_], gradient, dim_);
      adagrad_.apply(row_, row_[dim_], gradient, dim_);
      return;
    }
    for (std::int32_t o = begin; o < end; ++o) {
      const float* piece = nullptr;
      std::int64_t first = 0, last = 0;
      row_[dim_] += mean_square_of(dim_, [&](std::int64_t i) {
        if (i >= last) {
          first = i;
          last = std::min(dim_, i + kPiece);
          piece = piece_of(o, first, last - first);
        }
        return piece + (i - first);
      });
    }
    const float deviation = RowAdagrad::deviation(row_[dim_]);
    for_pieces([&](std::int64_t first, std::int64_t count) {  // the row's piece stays in the cache for all occurrences
      for (std::int32_t o = begin; o < end; ++o)
        adagrad_.move(row_ + first, deviation, piece_of(o, first, count), count);
    });
  }

 private:
  template <typename Body>
  void for_pieces(Body body) const {
    for (std::int64_t first = 0; first < dim_; first += kPiece) body(first, std::min(kPiece, dim_ - first));
  }

  const RowAdagrad adagrad_;
  const std::int64_t dim_;
  float* const row_;
  float* next_gradient_;  // where the next gradient goes; nullptr: the row is updated
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
    scratch.gradient.reserve(kPiece);
    scratch.sum.reserve(entity_dim_);
  }
}

void RowUpdates::start(const Batch& batch) {
  entity_regularization_.assign(batch.entities.size(), 0.0);
  relation_regularization_.assign(batch.relations.size(), 0.0);
}

void RowUpdates::update_entity(const Batch& batch, const StepPointers& rows, std::int64_t entity,
                               const EdgeGradients& gradients, int worker) {
  const std::int32_t first = batch.positive_offset[entity], last = batch.positive_offset[entity + 1];
  const std::int32_t first_negative = batch.negative_offset[entity], last_negative = batch.negative_offset[entity + 1];
  float* const penalty = scratch_[worker].penalty.data();
  float* const sum = scratch_[worker].sum.data();
  float* const piece = scratch_[worker].gradient.data();
  if (loss_.regularized()) {
    const std::int32_t reads = (last > first) + (last_negative - first_negative);
    const double norm = regularize(loss_, rows.entities.source[entity], entity_dim_, penalty);
    entity_regularization_[entity] = reads * norm;
  }
  RowChange row(rows.entities, entity, entity_dim_, learning_rate_);
  if (last > first) {
    const auto end_of = [&](std::int32_t o) {
      const std::int64_t end = batch.positive_occurrence[o], positives = batch.positives();
      return end < positives ? gradients.head[end] : gradients.tail[end - positives];
    };
    const float* gradient = end_of(first);
    const auto add = [&](const float* more) {
      add_rows(gradient, more, entity_dim_, sum);
      gradient = sum;
    };
    for (std::int32_t o = first + 1; o < last; ++o) add(end_of(o));
    if (loss_.regularized()) add(penalty);
    row.entry(0, 1, [&](std::int32_t, std::int64_t first, std::int64_t) { return gradient + first; });
  }
  row.entry(first_negative, last_negative, [&](std::int32_t o, std::int64_t first, std::int64_t count) {
    const float* const gradient = gradients.negative[batch.negative_occurrence[o]] + first;
    if (!loss_.regularized()) return gradient;
    add_rows(gradient, penalty + first, count, piece);
    return static_cast<const float*>(piece);
  });
}

void RowUpdates::update_relation(const Batch& batch, const StepPointers& rows, std::int64_t relation,
                                 const EdgeGradients& gradients, int worker) {
  const std::int32_t begin = batch.relation_offset[relation], end = batch.relation_offset[relation + 1];
  float* penalty = scratch_[worker].penalty.data();
  if (loss_.regularized()) {
    const double sum = regularize(loss_, rows.relations.source[relation], relation_dim_, penalty);
    relation_regularization_[relation] = (end - begin) * sum;
  }
  RowChange row(rows.relations, relation, relation_dim_, learning_rate_);
  row.entry(begin, end, [&](std::int32_t o, std::int64_t first, std::int64_t count) {
    float* gradient = scratch_[worker].gradient.data();
    model_.expand(gradients.relation[batch.relation_occurrence[o]], first, count, gradient);
    if (loss_.regularized()) add_to(gradient, penalty + first, count);
    return gradient;
  });
}

void RowUpdates::update_projection(const Batch& batch, const StepPointers& rows, std::int64_t relation,
                                   const EdgeGradients& gradients, int worker) {
  const std::int32_t begin = batch.relation_offset[relation], end = batch.relation_offset[relation + 1];
  RowChange row(rows.projections, relation, projection_dim_, learning_rate_);
  row.entry(begin, end, [&](std::int32_t o, std::int64_t first, std::int64_t count) {
    const float* left = gradients.projection_factors[batch.relation_occurrence[o]];
    const float* right = left + entity_dim_;
    float* gradient = scratch_[worker].gradient.data();
    fill_range(relation_dim_, first, count, gradient,
               [&](std::int64_t i, std::int64_t j, auto read) { return broadcast(left[i]) * read(right + j); });
    return gradient;
  });
  row.entry(begin, end, [&](std::int32_t o, std::int64_t first, std::int64_t) {
    return gradients.projection[batch.relation_occurrence[o]] + first;
  });
}

double RowUpdates::regularization() const {
  const auto sum = [](const std::vector<double>& x) { return std::accumulate(x.begin(), x.end(), 0.0); };
  return loss_.regularization_coefficient * (sum(entity_regularization_) + sum(relation_regularization_));
}

}  // namespace frugal
