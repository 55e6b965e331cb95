// The gradients of one step, and what computes them.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/linalg/buffer.h"
#include "base/parallel/thread_pool.h"
#include "comm/share.h"
#include "models/loss.h"
#include "models/model.h"
#include "sampler/batch.h"

namespace frugal {

// Where the distinct rows of a step are read from and written to, in the order of Batch::entities (or relations). A row
// is dim floats of embedding, then one of Adagrad state. Both pointers of a row may be the same: updated in place.
//
// A row that has a place for gradients is not updated: others train on it in the same step, and whoever applies the
// gradients of all of them in order gets those of this step there, entry after entry, gradient_stride floats apart.
struct RowPointers {
  const float* const* source = nullptr;
  float* const* destination = nullptr;
  float* const* gradient = nullptr;  // nullptr: all rows are updated
  std::int64_t gradient_stride = 0;
  const std::uint8_t* early = nullptr;  // not 0 where a row is to be written before the others; nullptr: nowhere
};

// All rows of a step, as pointers. TransR alone has projections, one row per relation.
struct StepPointers {
  RowPointers entities, relations, projections;
};

// Takes a buffer and the floats that a batch needs in it: reserves them, or counts them.
using BufferVisit = std::function<void(Buffer& buffer, std::int64_t floats)>;

// A matrix whose rows lie a whole, odd number of cache lines apart. Grows, never shrinks.
struct BufferRows {
  Buffer buffer;
  std::int64_t stride = 0;

  void visit(std::int64_t rows, const BufferVisit& visit) { visit(buffer, rows * stride); }
  float* operator[](std::int64_t i) { return buffer.data() + i * stride; }
  const float* operator[](std::int64_t i) const { return buffer.data() + i * stride; }
  Rows from(std::int64_t row) { return {(*this)[row], stride}; }
};

// Gradients of the loss by the rows of each edge and by each negative, without regularization, and the losses they
// belong to.
struct EdgeGradients {
  BufferRows head, tail;          // (B, entity_dim): both ends of each positive
  BufferRows relation;            // (B, ...): of each positive, as the model stores it (Model::expand)
  BufferRows negative;            // (chunks * negatives, entity_dim): each sampled negative
  BufferRows projection_factors;  // TransR (B, entity_dim + relation_dim): that of the positive's own score is their
                                  // outer product
  BufferRows projection;          // TransR (B, entity_dim * relation_dim): that of the positive's negatives
  std::vector<double> positive_loss,
      negative_loss;  // (B,) times edge importance; a joint loss is all in negative_loss
};

// Nanoseconds by phase of the step.
class PhaseClock {
 public:
  enum Phase { kQueries, kScores, kNegatives, kUpdates, kPhases };

  void start() { last_ = Clock::now(); }
  // Counts the time since start or the last lap towards the phase.
  void lap(Phase phase) {
    const auto now = Clock::now();
    nanoseconds_[phase] += std::chrono::duration_cast<std::chrono::nanoseconds>(now - last_).count();
    last_ = now;
  }
  const std::array<std::int64_t, kPhases>& nanoseconds() const { return nanoseconds_; }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point last_{};
  std::array<std::int64_t, kPhases> nanoseconds_{};
};

// Ranks that each have some columns of all rows, as a pass sees them: each makes the raw scores of its columns for all
// positives, and the losses of its share of the positives. HostExchange has their collectives; this one is alone.
class ColumnRanks {
 public:
  virtual ~ColumnRanks() = default;
  virtual Share share(std::int64_t positives) const { return {0, positives}; }
  // values: a record of `width` raw scores for each positive, then `common` ones. The records of this rank's share and
  // the common ones become sums over all columns.
  virtual void reduce_scatter(float* values, std::int64_t positives, std::int64_t width, std::int64_t common) = 0;
  // records: of `width` floats for each positive; this rank has made those of its share, and gets the others.
  virtual void all_gather(float*, std::int64_t /*positives*/, std::int64_t /*width*/) {}
};

struct BatchShape;  // shape.h

// Computes a step's gradients; reads the rows' sources and writes no row.
class GradientPass {
 public:
  virtual ~GradientPass() = default;
  // Visits the buffers of batches of this shape. All are reserved when a batch runs.
  virtual void visit_buffers(const BatchShape& shape, const BufferVisit& visit) = 0;
  // Laps the clock at the end of kQueries, kScores and kNegatives. One caller at a time.
  //
  // A pass whose relation rows are large calls update (if there is one) for each relation once its edges' gradients are
  // there and nobody reads its row any more, while the row is in a cache, and returns true; others return false.
  //
  // ranks: where rows are some columns of the whole ones; else null. Throws std::logic_error for a model that does not
  // split.
  using UpdateRelation = std::function<void(std::int64_t relation, int worker)>;
  virtual bool run(const Batch& batch, const StepPointers& rows, EdgeGradients& out, PhaseClock& clock,
                   const UpdateRelation& update, ColumnRanks* ranks) = 0;
};

// The arguments of every pass. References must outlive the pass.
struct PassContext {
  const Model& model;
  const LossSpec& loss;
  bool degree_negatives;  // the chunk's own heads or tails precede the sampled negatives
  ThreadPool& pool;
  const Kernels& kernels;
};

// For all models in which a negative's row is compared as it is.
std::unique_ptr<GradientPass> make_shared_pass(const PassContext& context);
// For TransR, which projects every negative for each of the chunk's relations.
std::unique_ptr<GradientPass> make_projected_pass(const PassContext& context);

}  // namespace frugal
