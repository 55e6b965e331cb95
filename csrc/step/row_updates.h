// Applies a step's gradients to its rows, in DGL-KE's order.
//
// Entities: a row's occurrences among the positives are one gradient (their sum), applied first; then its occurrences
// among the negatives: their mean squares all go into the state before the first of them is applied, and each is
// applied on its own. Relations: one gradient per edge, treated like negatives. Projections: twice, for the positives'
// own scores, then for their negatives. Regularization adds to every gradient of an entity or relation, taken at the
// row as it was read. Different rows are independent; each function is one row's whole update.
#pragma once

#include <vector>

#include "step/gradients.h"

namespace frugal {

class RowUpdates {
 public:
  RowUpdates(const Model& model, const LossSpec& loss, float learning_rate, int workers);

  // Before the updates of a batch. worker in [0, workers) below names whose scratch is used.
  void start(const Batch& batch);
  void update_entity(const Batch& batch, const StepPointers& rows, std::int64_t entity, const EdgeGradients& gradients,
                     int worker);
  void update_relation(const Batch& batch, const StepPointers& rows, std::int64_t relation,
                       const EdgeGradients& gradients, int worker);
  void update_projection(const Batch& batch, const StepPointers& rows, std::int64_t relation,
                         const EdgeGradients& gradients, int worker);
  // After them: coefficient * sum |x|^norm over all rows that were read.
  double regularization() const;

 private:
  struct Scratch {
    Buffer penalty, gradient, sum;
  };

  const Model& model_;
  const LossSpec& loss_;
  const float learning_rate_;
  const std::int64_t entity_dim_, relation_dim_, projection_dim_;
  std::vector<Scratch> scratch_;                                         // one per worker
  std::vector<double> entity_regularization_, relation_regularization_;  // (U,), (R,) times reads
};

}  // namespace frugal
