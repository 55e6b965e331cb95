#include "step/train_step.h"

#include <numeric>
#include <stdexcept>
#include <utility>

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

void TrainStep::reserve(const Batch& batch) {
  const std::int64_t positives = batch.positives();
  for (auto* rows : {&gradients_.head, &gradients_.tail, &gradients_.relation, &gradients_.projection_factors,
                     &gradients_.projection})
    rows->reserve(positives);
  gradients_.negative.reserve(static_cast<std::int64_t>(batch.negative.size()));
  gradients_.positive_loss.resize(static_cast<std::size_t>(positives));
  gradients_.negative_loss.resize(static_cast<std::size_t>(positives));
}

bool TrainStep::compute_gradients(const Batch& batch, const StepPointers& rows,
                                  const GradientPass::UpdateRelation& update, ColumnRanks* ranks) {
  reserve(batch);
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

StepLosses TrainStep::run(const Batch& batch, const StepPointers& rows, const std::function<void()>& relations_done) {
  updates_.start(batch);
  const auto update_relation = [&](std::int64_t relation, int worker) {
    updates_.update_relation(batch, rows, relation, gradients_, worker);
    if (model_->projected()) updates_.update_projection(batch, rows, relation, gradients_, worker);
  };
  const bool relations_updated = compute_gradients(batch, rows, update_relation);
  StepLosses losses = this->losses();
  const auto entities = static_cast<std::int64_t>(batch.entities.size());
  const auto relations = static_cast<std::int64_t>(relations_updated ? 0 : batch.relations.size());
  const std::int64_t dim = model_->spec().entity_dim;
  const std::int64_t relations_of_task = model_->projected() ? 1 : kRows;
  std::int64_t relation_tasks = pieces(relations, relations_of_task);
  const auto update_relations_of = [&](std::int64_t task, int worker) {
    const std::int64_t end = std::min(relations, (task + 1) * relations_of_task);
    for (std::int64_t r = task * relations_of_task; r < end; ++r) update_relation(r, worker);
  };
  if (relations_done) {
    for_tasks(pool_, std::exchange(relation_tasks, 0), update_relations_of);
    relations_done();
  }
  for_tasks(pool_, relation_tasks + pieces(entities, kRows), [&](std::int64_t task, int worker) {
    if (task < relation_tasks) return update_relations_of(task, worker);
    const std::int64_t first = (task - relation_tasks) * kRows, end = std::min(entities, first + kRows);
    for (std::int64_t u = first; u < end; ++u) {
      if (u + 1 < end) prefetch_row(rows.entities.source[u + 1], dim);
      updates_.update_entity(batch, rows, u, gradients_, worker);
    }
  });
  clock_.lap(PhaseClock::kUpdates);
  losses.regularization = updates_.regularization();
  losses.total += losses.regularization;
  return losses;
}

}  // namespace frugal
