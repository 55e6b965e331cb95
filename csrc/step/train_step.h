// One training step on the CPU: rows in, updated rows and losses out.
//
// The step knows a batch (sampler/batch.h) and pointers to rows, not where rows live. Four phases, each of independent
// tasks: (1) queries, positive scores, negatives gathered into panels; (2) per block of queries: scores, loss, weights, the
// queries' and positives' gradients; (3) gradients of the negatives, update of relations; (4) update of entities. The
// negatives x positives matrix is written once, as the weights that (3) needs. No bit of a result depends on the number of
// threads or on the instruction set.
//
// Update order, DGL-KE's: a row's positive occurrences are one gradient (their sum), then come its occurrences among the
// negatives: their mean squares all go into the state before the first is applied, and each is applied on its own.
// Relations: one gradient per edge, likewise.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "linalg/buffer.h"
#include "loss/loss.h"
#include "models/model.h"
#include "parallel/thread_pool.h"
#include "sampler/batch.h"

namespace frugal {

// Where the distinct rows of a step are read from and written to, in the order of Batch::entities (or relations). A row
// is dim floats of embedding, then one of Adagrad state. Both pointers of a row may be the same: updated in place.
struct RowPointers {
  const float* const* source;
  float* const* destination;
};

// What a step, or the sum of several, reports. Means over the positives, as DGL-KE logs them.
struct StepLosses {
  double positive = 0.0;        // 0 for pairwise losses
  double negative = 0.0;        // 0 for pairwise losses
  double regularization = 0.0;
  double total = 0.0;           // what is differentiated, regularization included
};

class TrainStep {
 public:
  static constexpr int kPhases = 4;

  // Throws std::invalid_argument if the model, its dimensions or the loss make no sense. The pool must outlive the step.
  TrainStep(const ModelSpec& model, const LossSpec& loss, float learning_rate, bool degree_negatives, ThreadPool& pool,
            const Kernels& kernels);
  ~TrainStep();

  // Trains on one batch. One caller at a time. Buffers grow to the largest batch seen; std::bad_alloc if they cannot.
  StepLosses run(const Batch& batch, const RowPointers& entities, const RowPointers& relations);

  const Model& model() const { return *model_; }
  // Nanoseconds that the phases took so far.
  const std::array<std::int64_t, kPhases>& phase_nanoseconds() const { return phase_nanoseconds_; }

 private:
  struct Shape;
  struct Scratch;

  void reserve(const Shape& shape);
  void prefetch_edge(const Batch& batch, std::int64_t edge) const;
  void prepare_edge(const Batch& batch, std::int64_t edge);
  void pack_negatives(const Batch& batch, const Shape& shape, std::int64_t chunk, std::int64_t panel);
  void score_queries(const Batch& batch, const Shape& shape, std::int64_t chunk, std::int64_t first, std::int64_t count,
                     Scratch& scratch);
  void differentiate_negatives(const Batch& batch, const Shape& shape, std::int64_t chunk, std::int64_t first,
                               std::int64_t count, Scratch& scratch);
  void update_relation(const Batch& batch, std::int64_t relation, Scratch& scratch);
  void update_entity(const Batch& batch, std::int64_t entity, Scratch& scratch);
  Triple triple(const Batch& batch, std::int64_t edge) const;
  StepLosses sum_losses(const Batch& batch) const;

  const std::unique_ptr<Model> model_;
  const LossSpec loss_;
  const float learning_rate_;
  const bool degree_negatives_;  // the chunk's own heads or tails precede the sampled negatives
  ThreadPool& pool_;
  const Kernels& kernels_;
  const std::int64_t entity_dim_, relation_dim_, relation_gradient_floats_;
  const std::int64_t entity_stride_, relation_stride_;  // of the buffers below

  RowPointers entities_{}, relations_{};  // of the running step

  Buffer query_;              // (B, entity_stride)
  Buffer negative_;           // (chunks * columns, entity_stride): own sides first, if any, then the sampled ones
  Buffer panel_;              // per chunk, `vectors` panels of (entity_dim, 16)
  Buffer negative_square_;    // (chunks, 16 * vectors)
  Buffer weight_;             // (B, weight_stride): d loss / d raw comparison
  Buffer head_gradient_;      // (B, entity_stride)
  Buffer tail_gradient_;      // (B, entity_stride)
  Buffer relation_gradient_;  // (B, relation_stride), as the model stores it
  Buffer negative_gradient_;  // (chunks * negatives, entity_stride)
  std::vector<float> positive_score_, memo_, query_square_;              // (B,)
  std::vector<double> positive_loss_, negative_loss_;                    // (B,) times edge importance
  std::vector<double> entity_regularization_, relation_regularization_;  // (U,), (R,) times occurrences
  std::vector<Scratch> scratch_;                                         // one per worker
  std::array<std::int64_t, kPhases> phase_nanoseconds_{};
};

}  // namespace frugal
