#include "step/train_step.h"

#include <numeric>
#include <stdexcept>

#include "step/shape.h"
#include "step/tasks.h"

namespace frugal {
namespace {

constexpr std::int64_t kRows = 16;  // updated rows of a task

const LossSpec& checked(const LossSpec& loss) {
  if (loss.pairwise && loss.adversarial) throw std::invalid_argument("a pairwise loss has no adversarial weights");
  if (loss.genre == LossGenre::kSoftmax && (loss.pairwise || loss.adversarial))
    throw std::invalid_argument("a softmax is neither pairwise nor adversarial");
  return loss;
}

}  // namespace

TrainStep::TrainStep(const ModelSpec& model, const LossSpec& loss, float learning_rate, bool degree_negatives,
                     int threads, const Kernels& kernels)
    : model_(make_model(model)),
      loss_(checked(loss)),
      degree_negatives_(degree_negatives),
      pool_(threads),
      pass_((model_->projected() ? make_projected_pass
                                 : make_shared_pass)({*model_, loss_, degree_negatives, pool_, kernels})),
      updates_(*model_, loss_, learning_rate, pool_.threads()) {
  const std::int64_t entity = model.entity_dim, relation = model.relation_dim;
  for (auto* rows : {&gradients_.head, &gradients_.tail, &gradients_.negative})
    rows->stride = padded_stride(entity + kVector);
  gradients_.relation.stride = padded_stride(model_->relation_gradient_floats());
  if (model_->projected()) {
    gradients_.projection_factors.stride = padded_stride(entity + relation);
    gradients_.projection.stride = padded_stride(entity * relation);
  }
}

void TrainStep::visit_buffers(const BatchShape& shape, const BufferVisit& visit) {
  for (auto* rows : {&gradients_.head, &gradients_.tail, &gradients_.relation, &gradients_.projection_factors,
                     &gradients_.projection})
    rows->visit(shape.positives, visit);
  gradients_.negative.visit(shape.chunks * shape.negatives, visit);
  pass_->visit_buffers(shape, visit);
}

std::int64_t TrainStep::buffer_floats(const BatchShape& shape) {
  std::int64_t sum = 0;
  visit_buffers(shape, [&](Buffer&, std::int64_t floats) { sum += floats; });
  return sum;
}

bool TrainStep::compute_gradients(const Batch& batch, const StepPointers& rows,
                                  const GradientPass::UpdateRelation& update, ColumnRanks* ranks) {
  visit_buffers({batch, degree_negatives_}, [](Buffer& buffer, std::int64_t floats) { buffer.reserve(floats); });
  for (auto* losses : {&gradients_.positive_loss, &gradients_.negative_loss})
    losses->resize(static_cast<std::size_t>(batch.positives()));
  clock_.start();
  return pass_->run(batch, rows, gradients_, clock_, update, ranks);
}

StepLosses TrainStep::losses() const {
  const auto mean = [](const std::vector<double>& losses) {
    return std::accumulate(losses.begin(), losses.end(), 0.0) / static_cast<double>(losses.size());
  };
  const double positive = mean(gradients_.positive_loss), negative = mean(gradients_.negative_loss);
  if (loss_.joint()) return {0.0, 0.0, 0.0, negative};
  return {positive, negative, 0.0, 0.5 * (positive + negative)};
}

StepLosses TrainStep::differentiate(const Batch& batch, const StepPointers& rows, ColumnRanks* ranks) {
  compute_gradients(batch, rows, nullptr, ranks);
  return losses();
}

const std::vector<std::int32_t>& TrainStep::order_of_updates(const Batch& batch) {
  const std::size_t entities = batch.entities.size(), rows = entities + batch.relations.size();
  const std::int64_t chunks = batch.chunks();
  std::vector<std::int32_t> begin(static_cast<std::size_t>(chunks) + 1);  // of each chunk's rows
  first_chunk_.assign(rows, -1);
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
    const auto add = [&](std::size_t row) {
      if (first_chunk_[row] >= 0) return;
      first_chunk_[row] = static_cast<std::int32_t>(chunk);
      ++begin[chunk + 1];
    };
    for (std::int64_t edge = chunk * batch.chunk_size; edge < (chunk + 1) * batch.chunk_size; ++edge) {
      add(static_cast<std::size_t>(batch.head_slot[edge]));
      add(static_cast<std::size_t>(batch.tail_slot[edge]));
      add(entities + static_cast<std::size_t>(batch.relation_slot[edge]));
    }
    for (std::int64_t i = 0; i < batch.negatives_per_chunk; ++i)
      add(static_cast<std::size_t>(batch.negative_slot[chunk * batch.negatives_per_chunk + i]));
    begin[chunk + 1] += begin[chunk];
  }
  order_.resize(rows);
  for (std::size_t row = 0; row < rows; ++row) order_[begin[first_chunk_[row]]++] = static_cast<std::int32_t>(row);
  return order_;
}

StepLosses TrainStep::run(const Batch& batch, const StepPointers& rows, const std::function<void()>& early_done) {
  updates_.start(batch);
  const auto update_relation = [&](std::int64_t relation, int worker) {
    updates_.update_relation(batch, rows, relation, gradients_, worker);
    if (model_->projected()) updates_.update_projection(batch, rows, relation, gradients_, worker);
  };
  const bool relations_updated = compute_gradients(batch, rows, update_relation);
  StepLosses losses = this->losses();
  const std::vector<std::int32_t>& order = order_of_updates(batch);
  const auto entities = static_cast<std::int32_t>(batch.entities.size());
  const auto updated = static_cast<std::int64_t>(order.size());
  const std::int64_t dim = model_->spec().entity_dim;
  const std::uint8_t* const early = early_done ? rows.entities.early : nullptr;
  const auto update = [&](bool relations, bool early_entities) {
    for_tasks(pool_, pieces(updated, kRows), [&](std::int64_t task, int worker) {
      const std::int64_t end = std::min(updated, (task + 1) * kRows);
      for (std::int64_t i = task * kRows; i < end; ++i) {
        const std::int32_t u = order[i];
        if (u >= entities) {
          if (relations) update_relation(u - entities, worker);
          continue;
        }
        if ((early && early[u]) != early_entities) continue;
        if (i + 1 < end && order[i + 1] < entities) prefetch_row(rows.entities.source[order[i + 1]], dim);
        updates_.update_entity(batch, rows, u, gradients_, worker);
      }
    });
  };
  if (early_done) {
    update(!relations_updated, true);
    early_done();
    update(false, false);
  } else {
    update(!relations_updated, false);
  }
  clock_.lap(PhaseClock::kUpdates);
  losses.regularization = updates_.regularization();
  losses.total += losses.regularization;
  return losses;
}

}  // namespace frugal
