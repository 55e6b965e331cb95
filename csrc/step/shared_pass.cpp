// Gradients of a step whose negatives are compared as they are, in three phases of independent tasks:
//   queries:   the query and the positive score of each edge; the negatives copied, and packed into panels
//   scores:    per block of queries: comparisons, losses, weights, gradients of the queries and so of the positives
//   negatives: per block of negatives: their gradients, from the weights
// The matrix of positives x negatives is written once, as the weights.
#include <cstring>

#include "step/gradients.h"
#include "step/query_losses.h"
#include "step/shape.h"
#include "step/tasks.h"

namespace frugal {
namespace {

class SharedPass final : public GradientPass {
 public:
  explicit SharedPass(const PassContext& context)
      : context_(context), dim_(context.model.spec().entity_dim), scratch_(context.pool.threads()) {
    // Kernels read whole vectors, also from a row's second half.
    for (auto* rows : {&query_, &negative_}) rows->stride = padded_stride(dim_ + kVector);
    for (auto& scratch : scratch_) {
      scratch.gradient.stride = query_.stride;
      scratch.gradient.reserve(kBlock);
    }
  }

  void run(const Batch& batch, const StepPointers& rows, LeafGradients& out, PhaseClock& clock) override {
    const BatchShape shape(batch, context_.degree_negatives);
    reserve(shape);

    const std::int64_t edge_tasks = pieces(shape.positives, kEdges);
    for_tasks(context_.pool, edge_tasks + shape.chunks * shape.vectors, [&](std::int64_t task, int) {
      if (task < edge_tasks) return prepare_edges(batch, rows, task * kEdges);
      task -= edge_tasks;
      pack_negatives(batch, shape, rows, task / shape.vectors, task % shape.vectors);
    });
    clock.lap(PhaseClock::kQueries);

    const std::int64_t query_block = block_rows(shape.positives, context_.pool.threads());
    const std::int64_t query_blocks = pieces(shape.chunk_size, query_block);
    for_tasks(context_.pool, shape.chunks * query_blocks, [&](std::int64_t task, int worker) {
      const std::int64_t first = task % query_blocks * query_block;
      const std::int64_t count = std::min(query_block, shape.chunk_size - first);
      score(batch, shape, rows, task / query_blocks, first, count, scratch_[worker], out);
    });
    clock.lap(PhaseClock::kScores);

    // Blocks do not cross from the chunk's own side to the sampled negatives: their gradients go to different places.
    const std::int64_t size = block_rows(shape.chunks * shape.columns, context_.pool.threads());
    const std::int64_t own_blocks = pieces(shape.own, size), blocks = own_blocks + pieces(shape.negatives, size);
    for_tasks(context_.pool, shape.chunks * blocks, [&](std::int64_t task, int worker) {
      const std::int64_t chunk = task / blocks, block = task % blocks;
      if (block < own_blocks) {
        const std::int64_t first = block * size;
        differentiate_own(batch, shape, chunk, first, std::min(size, shape.own - first), scratch_[worker], out);
      } else {
        const std::int64_t first = (block - own_blocks) * size;
        differentiate(shape, chunk, shape.own + first, std::min(size, shape.negatives - first),
                      out.negative.from(chunk * shape.negatives + first));
      }
    });
    clock.lap(PhaseClock::kNegatives);
  }

 private:
  struct Scratch {
    Buffer slope;         // of one query
    BufferRows gradient;  // (kBlock, dim)
  };

  void reserve(const BatchShape& s) {
    query_.reserve(s.positives);
    negative_.reserve(s.chunks * s.columns);
    panel_.reserve(s.chunks * s.vectors * kVector * dim_);
    negative_square_.reserve(s.chunks * s.vectors * kVector);
    weight_.stride = padded_stride(s.vectors * kVector);
    weight_.reserve(s.positives);
    for (auto& scratch : scratch_) scratch.slope.reserve(weight_.stride);
    for (auto* each : {&positive_score_, &memo_, &query_square_}) each->resize(static_cast<std::size_t>(s.positives));
  }

  static Triple triple(const Batch& batch, const StepPointers& rows, std::int64_t edge) {
    return {rows.entities.source[batch.head_slot[edge]], rows.relations.source[batch.relation_slot[edge]],
            rows.entities.source[batch.tail_slot[edge]]};
  }

  // Edges go in the order of their relations, so that a large relation row is read once for all of them.
  void prepare_edges(const Batch& batch, const StepPointers& rows, std::int64_t first) {
    const std::int64_t end = std::min(batch.positives(), first + kEdges);
    for (std::int64_t i = first; i < end; ++i) {
      const std::int64_t edge = batch.relation_occurrence[i];
      if (i + 1 < end) {
        const Triple next = triple(batch, rows, batch.relation_occurrence[i + 1]);
        for (const float* row : {next.head, next.relation, next.tail}) prefetch_row(row, dim_);
      }
      positive_score_[edge] =
          context_.model.forward(triple(batch, rows, edge), batch.corrupt_head, query_[edge], &memo_[edge]);
      if (uses_squares()) query_square_[edge] = context_.kernels.dot(query_[edge], query_[edge], dim_);
    }
  }

  void pack_negatives(const Batch& batch, const BatchShape& s, const StepPointers& rows, std::int64_t chunk,
                      std::int64_t panel) {
    const float* copies[kVector];
    for (std::int64_t l = 0; l < kVector; ++l) {
      const std::int64_t column = panel * kVector + l;
      if (column >= s.columns) {  // the last one fills up the panel
        copies[l] = copies[l - 1];
        continue;
      }
      if (column + 1 < s.columns) prefetch_row(rows.entities.source[s.slot(batch, chunk, column + 1)], dim_);
      float* copy = negative_[chunk * s.columns + column];
      std::memcpy(copy, rows.entities.source[s.slot(batch, chunk, column)], dim_ * sizeof(float));
      if (uses_squares())
        negative_square_.data()[chunk * s.vectors * kVector + column] = context_.kernels.dot(copy, copy, dim_);
      copies[l] = copy;
    }
    context_.kernels.pack(copies, dim_, panels(s, chunk) + panel * kVector * dim_);
  }

  void score(const Batch& batch, const BatchShape& s, const StepPointers& rows, std::int64_t chunk, std::int64_t first,
             std::int64_t count, Scratch& scratch, LeafGradients& out) {
    const std::int64_t first_edge = chunk * s.chunk_size + first;
    const Similarity similarity = context_.model.similarity();
    const Rows query = query_.from(first_edge), weight = weight_.from(first_edge);
    context_.kernels.compare(similarity, count, s.vectors, dim_, query, panels(s, chunk), weight);
    float score_gradient[kBlock];
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t edge = first_edge + i;
      score_gradient[i] =
          take_losses(context_, batch, s, {edge, positive_score_[edge], query_square_[edge]},
                      negative_square_.data() + chunk * s.vectors * kVector, weight[i], scratch.slope.data(), out);
    }
    const Rows gradient = scratch.gradient.from(0);
    context_.kernels.gradient(similarity, count, s.columns, dim_, query, negative_.from(chunk * s.columns), weight.data,
                              weight.stride, 1, gradient);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t edge = first_edge + i;
      context_.model.backward(triple(batch, rows, edge), batch.corrupt_head, memo_[edge], score_gradient[i],
                              gradient[i], {out.head[edge], out.relation[edge], out.tail[edge]});
    }
  }

  void differentiate(const BatchShape& s, std::int64_t chunk, std::int64_t first, std::int64_t count, Rows out) {
    const std::int64_t first_edge = chunk * s.chunk_size;
    context_.kernels.gradient(context_.model.similarity(), count, s.chunk_size, dim_,
                              negative_.from(chunk * s.columns + first), query_.from(first_edge),
                              weight_[first_edge] + first, 1, weight_.stride, out);
  }

  // The chunk's own heads or tails are leaves already: what they get as negatives is added to that.
  void differentiate_own(const Batch& batch, const BatchShape& s, std::int64_t chunk, std::int64_t first,
                         std::int64_t count, Scratch& scratch, LeafGradients& out) {
    const Rows gradient = scratch.gradient.from(0);
    differentiate(s, chunk, first, count, gradient);
    BufferRows& side = batch.corrupt_head ? out.head : out.tail;
    for (std::int64_t i = 0; i < count; ++i) add_to(side[chunk * s.chunk_size + first + i], gradient[i], dim_);
  }

  float* panels(const BatchShape& s, std::int64_t chunk) { return panel_.data() + chunk * s.vectors * kVector * dim_; }
  bool uses_squares() const { return context_.model.similarity() == Similarity::kL2; }

  const PassContext context_;
  const std::int64_t dim_;                                   // of entities, queries and negatives
  BufferRows query_;                                         // (B, dim)
  BufferRows negative_;                                      // (chunks * columns, dim): the own side first, if any
  BufferRows weight_;                                        // (B, columns): d loss / d comparison
  Buffer panel_;                                             // per chunk, `vectors` panels of (dim, 16)
  Buffer negative_square_;                                   // (chunks, 16 * vectors)
  std::vector<float> positive_score_, memo_, query_square_;  // (B,)
  std::vector<Scratch> scratch_;                             // one per worker
};

}  // namespace

std::unique_ptr<GradientPass> make_shared_pass(const PassContext& context) {
  return std::make_unique<SharedPass>(context);
}

}  // namespace frugal
