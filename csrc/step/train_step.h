// One training step on the CPU: rows in, updated rows and losses out.
//
// The step knows a batch (sampler/batch.h) and pointers to rows, not where rows live. A GradientPass computes the
// gradients, RowUpdates applies them, all in parallel over independent pieces. No bit of a result depends on the number
// of threads or on the instruction set.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "step/gradients.h"
#include "step/row_updates.h"

namespace frugal {

// The report of a step. Means over the positives, as DGL-KE logs them.
struct StepLosses {
  double positive = 0.0;  // 0 for joint losses
  double negative = 0.0;  // 0 for joint losses
  double regularization = 0.0;
  double total = 0.0;  // what is differentiated, regularization included
};

class TrainStep {
 public:
  // threads >= 1, the caller's included. Throws std::invalid_argument if the model, its dimensions or the loss make no
  // sense. kernels must outlive the step.
  TrainStep(const ModelSpec& model, const LossSpec& loss, float learning_rate, bool degree_negatives, int threads,
            const Kernels& kernels);

  // Trains on one batch. One caller at a time. Buffers grow to the largest batch seen; std::bad_alloc if they cannot.
  // early_done: called, if it is given, when relations, projections and the early ones of the entities are updated or
  // have left their gradients, and before the other entities are.
  StepLosses run(const Batch& batch, const StepPointers& rows, const std::function<void()>& early_done = {});

  // The first half alone: fills gradients() and reports the losses without regularization. For training on several
  // ranks, where gradients travel before they are applied.
  // ranks: where rows are some columns of the whole ones, see GradientPass.
  StepLosses differentiate(const Batch& batch, const StepPointers& rows, ColumnRanks* ranks = nullptr);
  const EdgeGradients& gradients() const { return gradients_; }

  // Floats of the buffers that batches of this shape take.
  std::int64_t buffer_floats(const BatchShape& shape);

  const Model& model() const { return *model_; }
  const LossSpec& loss() const { return loss_; }
  bool degree_negatives() const { return degree_negatives_; }
  // Nanoseconds that the phases took so far.
  const std::array<std::int64_t, PhaseClock::kPhases>& phase_nanoseconds() const { return clock_.nanoseconds(); }

 private:
  void visit_buffers(const BatchShape& shape, const BufferVisit& visit);
  bool compute_gradients(const Batch& batch, const StepPointers& rows, const GradientPass::UpdateRelation& update,
                         ColumnRanks* ranks = nullptr);
  StepLosses losses() const;  // of the gradients, without regularization
  // Rows by the chunk that first uses them, of whose gradients a thread has most in its cache: slots of entities, and
  // behind them (from batch.entities.size() on) of relations.
  const std::vector<std::int32_t>& order_of_updates(const Batch& batch);

  const std::unique_ptr<Model> model_;
  const LossSpec loss_;
  const bool degree_negatives_;
  ThreadPool pool_;
  const std::unique_ptr<GradientPass> pass_;
  RowUpdates updates_;
  EdgeGradients gradients_;
  PhaseClock clock_;
  std::vector<std::int32_t> order_, first_chunk_;
};

}  // namespace frugal
