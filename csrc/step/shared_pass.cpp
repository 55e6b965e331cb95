// Gradients of a step whose negatives are compared as they are, in phases of independent tasks:
//   queries:   the query and the positive score of each edge; the negatives copied, and packed into panels
//   scores:    per block of queries: comparisons, losses, weights; gradients of the queries, where they are a product
//   negatives: per block of negatives: their gradients, from the weights; or, where gradients are no product, those of
//              queries and negatives together, per vector of columns; then the edge gradients of each positive
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
    for (auto* rows : {&query_, &negative_, &own_gradient_})
      rows->stride = padded_stride(dim_ + kVector);
  }

  bool run(const Batch& batch, const StepPointers& rows, EdgeGradients& out, PhaseClock& clock,
           const UpdateRelation& update, ColumnRanks* ranks) override {
    whole_ = !ranks;
    const BatchShape shape(batch, context_.degree_negatives);
    for (auto* each : {&positive_score_, &score_gradient_, &saved_, &query_square_})
      each->resize(static_cast<std::size_t>(shape.positives));

    const std::int64_t edge_tasks = pieces(shape.chunk_size, kEdges);  // of a chunk
    const auto edges_of = [&](std::int64_t chunk, std::int64_t task) {
      const std::int64_t first = chunk * shape.chunk_size;
      return Span{first + task * kEdges, first + std::min(shape.chunk_size, (task + 1) * kEdges)};
    };
    for_tasks(context_.pool, shape.chunks * (edge_tasks + shape.vectors), [&](std::int64_t task, int) {
      const std::int64_t chunk = task / (edge_tasks + shape.vectors), part = task % (edge_tasks + shape.vectors);
      if (part < edge_tasks) return prepare_edges(batch, rows, edges_of(chunk, part));
      pack_negatives(batch, shape, rows, chunk, part - edge_tasks);
    });
    clock.lap(PhaseClock::kQueries);
    if (ranks) compare_columns(shape, *ranks);

    const std::int64_t query_block = block_rows(shape.positives, context_.pool.threads());
    const std::int64_t query_blocks = pieces(shape.chunk_size, query_block);
    const std::int64_t vectors = pieces(dim_ / parts(), kVector);
    const bool one_pass = compares_pairs() && shape.chunks * vectors >= context_.pool.threads();
    const Share own = ranks ? ranks->share(shape.positives) : Share{0, shape.positives};
    const auto for_queries = [&](auto body) {  // body(chunk, first query in it, count, worker) for blocks of them
      for_tasks(context_.pool, shape.chunks * query_blocks, [&](std::int64_t task, int worker) {
        const std::int64_t chunk = task / query_blocks, first = task % query_blocks * query_block;
        body(chunk, first, std::min(query_block, shape.chunk_size - first), worker);
      });
    };
    for_queries([&](std::int64_t chunk, std::int64_t first, std::int64_t count, int worker) {
      score(batch, shape, own, chunk, first, count, scratch_[worker], out);
      if (whole_ && !one_pass) differentiate_queries(shape, chunk, first, count, out);
    });
    if (ranks) {
      gather_weights(shape, *ranks, out);
      if (!one_pass)
        for_queries([&](std::int64_t chunk, std::int64_t first, std::int64_t count, int) {
          differentiate_queries(shape, chunk, first, count, out);
        });
    }
    clock.lap(PhaseClock::kScores);

    // Blocks do not cross from the chunk's own side to the sampled negatives: their gradients go to different places.
    const std::int64_t size = block_rows(shape.chunks * shape.columns, context_.pool.threads());
    const std::int64_t own_blocks = pieces(shape.own, size), blocks = own_blocks + pieces(shape.negatives, size);
    const std::int64_t negative_tasks = one_pass ? vectors : blocks;  // of a chunk
    const auto of_negatives = [&](std::int64_t chunk, std::int64_t block, int worker) {
      if (one_pass) return differentiate_pairs(shape, chunk, block, scratch_[worker], out);
      const bool own = block < own_blocks;
      const std::int64_t first = own ? block * size : shape.own + (block - own_blocks) * size;
      const std::int64_t count = std::min(size, (own ? shape.own : shape.columns) - first);
      differentiate_negatives(shape, chunk, first, count, out);
    };
    const auto of_edges = [&](std::int64_t chunk, std::int64_t task) {
      differentiate_edges(batch, shape, rows, edges_of(chunk, task), out);
    };
    const auto for_chunks = [&](std::int64_t count, auto body) {  // body(chunk, task of it, worker)
      for_tasks(context_.pool, shape.chunks * count,
                [&](std::int64_t task, int worker) { body(task / count, task % count, worker); });
    };
    if (by_relation()) {
      for_chunks(negative_tasks, of_negatives);
      for_tasks(context_.pool, static_cast<std::int64_t>(batch.relations.size()), [&](std::int64_t task, int worker) {
        differentiate_edges(batch, shape, rows, {batch.relation_offset[task], batch.relation_offset[task + 1]}, out);
        if (update) update(task, worker);
      });
    } else if (one_pass || shape.own > 0) {  // edges need gradients that are made with those of negatives
      for_chunks(negative_tasks, of_negatives);
      for_chunks(edge_tasks, [&](std::int64_t chunk, std::int64_t task, int) { of_edges(chunk, task); });
    } else {
      for_chunks(negative_tasks + edge_tasks, [&](std::int64_t chunk, std::int64_t task, int worker) {
        if (task < negative_tasks) return of_negatives(chunk, task, worker);
        of_edges(chunk, task - negative_tasks);
      });
    }
    clock.lap(PhaseClock::kNegatives);
    return by_relation();
  }

  void visit_buffers(const BatchShape& s, const BufferVisit& visit) override {
    query_.visit(s.positives, visit);
    own_gradient_.visit(s.chunks * s.own, visit);
    negative_.visit(s.chunks * s.columns, visit);
    visit(panel_, s.chunks * s.vectors * kVector * dim_);
    visit(negative_square_, s.chunks * s.vectors * kVector);
    weight_.stride = padded_stride(s.vectors * kVector);
    weight_.visit(s.positives, visit);
    for (auto& scratch : scratch_) {
      visit(scratch.slope, weight_.stride);
      if (!compares_pairs()) continue;
      visit(scratch.my_sum, s.chunk_size * parts() * kVector);
      visit(scratch.their_sum, s.columns * parts() * kVector);
    }
  }

 private:
  struct Span {
    std::int64_t first, end;
  };
  struct Scratch {
    Buffer slope;            // of one query
    Buffer my_sum, their_sum;  // (chunk_size, parts, 16) and (columns, parts, 16)
  };

  static Triple triple(const Batch& batch, const StepPointers& rows, std::int64_t edge) {
    return {rows.entities.source[batch.head_slot[edge]], rows.relations.source[batch.relation_slot[edge]],
            rows.entities.source[batch.tail_slot[edge]]};
  }

  // Calls body(edge, its rows) for edges in the order of their relations, in which a large relation row is
  // read once for all of them.
  template <typename Body>
  void for_edges(const Batch& batch, const StepPointers& rows, Span edges, Body body) {
    for (std::int64_t i = edges.first; i < edges.end; ++i) {
      const std::int64_t edge = edge_of(batch, i);
      if (i + 1 < edges.end) {
        const Triple next = triple(batch, rows, edge_of(batch, i + 1));
        for (const float* row : {next.head, next.relation, next.tail}) prefetch_row(row, dim_);
      }
      body(edge, triple(batch, rows, edge));
    }
  }

  std::int64_t edge_of(const Batch& batch, std::int64_t i) const {
    return by_relation() ? batch.relation_occurrence[i] : i;
  }
  bool by_relation() const { return context_.model.spec().relation_dim > kLargeRow; }

  void prepare_edges(const Batch& batch, const StepPointers& rows, Span edges) {
    for_edges(batch, rows, edges, [&](std::int64_t edge, const Triple& x) {
      positive_score_[edge] = whole_ ? context_.model.forward(x, batch.corrupt_head, query_[edge], &saved_[edge])
                                     : context_.model.raw(x, batch.corrupt_head, query_[edge]);
      if (uses_squares()) query_square_[edge] = context_.kernels.dot(query_[edge], query_[edge], dim_);
    });
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

  // All raw scores of these columns; those of this rank's share are replaced by those of all columns.
  void compare_columns(const BatchShape& s, ColumnRanks& ranks) {
    for_tasks(context_.pool, s.chunks, [&](std::int64_t chunk, int) {
      const std::int64_t first_edge = chunk * s.chunk_size;
      context_.kernels.compare(context_.model.similarity(), s.chunk_size, s.vectors, dim_, query_.from(first_edge),
                               panels(s, chunk), weight_.from(first_edge));
    });
    const std::int64_t columns = s.vectors * kVector, width = columns + 2, common = s.chunks * columns;
    std::vector<float> values(static_cast<std::size_t>(s.positives * width + common));
    for (std::int64_t edge = 0; edge < s.positives; ++edge) {
      float* const record = &values[edge * width];
      std::copy_n(weight_[edge], columns, record);
      record[columns] = positive_score_[edge], record[columns + 1] = query_square_[edge];
    }
    std::copy_n(negative_square_.data(), common, &values[s.positives * width]);
    ranks.reduce_scatter(values.data(), s.positives, width, common);
    const Share own = ranks.share(s.positives);
    for (std::int64_t edge = own.first; edge < own.end; ++edge) {
      const float* const record = &values[edge * width];
      std::copy_n(record, columns, weight_[edge]);
      positive_score_[edge] = context_.model.finish(record[columns], &saved_[edge]);
      query_square_[edge] = record[columns + 1];
    }
    std::copy_n(&values[s.positives * width], common, negative_square_.data());
  }

  // What has become of the other ranks' shares, as far as gradients need it; and their losses, as floats.
  void gather_weights(const BatchShape& s, ColumnRanks& ranks, EdgeGradients& out) {
    const std::int64_t columns = s.vectors * kVector, width = columns + 4;
    const Share own = ranks.share(s.positives);
    std::vector<float> records(static_cast<std::size_t>(s.positives * width));
    for (std::int64_t edge = own.first; edge < own.end; ++edge) {
      float* const record = &records[edge * width];
      std::copy_n(weight_[edge], columns, record);
      record[columns] = saved_[edge], record[columns + 1] = score_gradient_[edge];
      record[columns + 2] = static_cast<float>(out.positive_loss[edge]);
      record[columns + 3] = static_cast<float>(out.negative_loss[edge]);
    }
    ranks.all_gather(records.data(), s.positives, width);
    for (std::int64_t edge = 0; edge < s.positives; ++edge) {
      const float* const record = &records[edge * width];
      std::copy_n(record, columns, weight_[edge]);
      saved_[edge] = record[columns], score_gradient_[edge] = record[columns + 1];
      out.positive_loss[edge] = record[columns + 2], out.negative_loss[edge] = record[columns + 3];
    }
  }

  // own: the positives whose losses are computed here.
  void score(const Batch& batch, const BatchShape& s, const Share& own, std::int64_t chunk, std::int64_t first,
             std::int64_t count, Scratch& scratch, EdgeGradients& out) {
    const std::int64_t first_edge = chunk * s.chunk_size + first;
    const Rows weight = weight_.from(first_edge);
    if (whole_)
      context_.kernels.compare(context_.model.similarity(), count, s.vectors, dim_, query_.from(first_edge),
                               panels(s, chunk), weight);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t edge = first_edge + i;
      if (edge < own.first || edge >= own.end) continue;
      score_gradient_[edge] =
          take_losses(context_, batch, s, {edge, positive_score_[edge], query_square_[edge]},
                      negative_square_.data() + chunk * s.vectors * kVector, weight[i], scratch.slope.data(), out);
    }
  }

  // Into the rows of heads' gradients, which edges then replace by theirs.
  void differentiate_queries(const BatchShape& s, std::int64_t chunk, std::int64_t first, std::int64_t count,
                             EdgeGradients& out) {
    const std::int64_t first_edge = chunk * s.chunk_size + first;
    context_.kernels.gradient(context_.model.similarity(), count, s.columns, dim_, query_.from(first_edge),
                              negative_.from(chunk * s.columns), weight_[first_edge], weight_.stride, 1,
                              out.head.from(first_edge));
  }

  // Where the gradients of the columns of a chunk from `column` on go, as far as the column's side reaches.
  Rows negative_gradient(const BatchShape& s, std::int64_t chunk, std::int64_t column, EdgeGradients& out) {
    if (column < s.own) return own_gradient_.from(chunk * s.own + column);
    return out.negative.from(chunk * s.negatives + column - s.own);
  }

  void differentiate_negatives(const BatchShape& s, std::int64_t chunk, std::int64_t first, std::int64_t count,
                               EdgeGradients& out) {
    const std::int64_t first_edge = chunk * s.chunk_size;
    context_.kernels.gradient(context_.model.similarity(), count, s.chunk_size, dim_,
                              negative_.from(chunk * s.columns + first), query_.from(first_edge),
                              weight_[first_edge] + first, 1, weight_.stride, negative_gradient(s, chunk, first, out));
  }

  // Queries and negatives of a chunk, one vector of columns.
  void differentiate_pairs(const BatchShape& s, std::int64_t chunk, std::int64_t vector, Scratch& scratch,
                           EdgeGradients& out) {
    const std::int64_t first_edge = chunk * s.chunk_size, column = vector * kVector, part = dim_ / parts();
    const std::int64_t count = std::min(kVector, part - column), floats = parts() * kVector;
    std::memset(scratch.my_sum.data(), 0, s.chunk_size * floats * sizeof(float));
    std::memset(scratch.their_sum.data(), 0, s.columns * floats * sizeof(float));
    context_.kernels.gradients(context_.model.similarity(), s.chunk_size, s.columns, dim_,
                               {query_[first_edge] + column, query_.stride},
                               {negative_[chunk * s.columns] + column, negative_.stride}, weight_[first_edge],
                               weight_.stride, scratch.my_sum.data(), scratch.their_sum.data());
    for (std::int64_t i = 0; i < s.chunk_size; ++i)
      for (std::int64_t p = 0; p < parts(); ++p)
        std::memcpy(out.head[first_edge + i] + p * part + column,
                    scratch.my_sum.data() + i * floats + p * kVector, count * sizeof(float));
    for (std::int64_t j = 0; j < s.columns; ++j) {
      float* gradient = negative_gradient(s, chunk, j, out).data + column;
      const float* sum = scratch.their_sum.data() + j * floats;
      for (std::int64_t p = 0; p < parts(); ++p)
        for (std::int64_t l = 0; l < count; ++l) gradient[p * part + l] = 0.0f - sum[p * kVector + l];
    }
  }

  // The edge gradients of each positive. The chunk's own heads or tails have gradients already: what they get as
  // negatives is added.
  void differentiate_edges(const Batch& batch, const BatchShape& s, const StepPointers& rows, Span edges,
                           EdgeGradients& out) {
    for_edges(batch, rows, edges, [&](std::int64_t edge, const Triple& x) {
      context_.model.backward(x, batch.corrupt_head, saved_[edge], score_gradient_[edge], out.head[edge],
                              {out.head[edge], out.relation[edge], out.tail[edge]});
      if (s.own > 0) add_to((batch.corrupt_head ? out.head : out.tail)[edge], own_gradient_[edge], dim_);
    });
  }

  float* panels(const BatchShape& s, std::int64_t chunk) { return panel_.data() + chunk * s.vectors * kVector * dim_; }
  std::int64_t parts() const { return parts_of(context_.model.similarity()); }
  // Whether gradients go pair by pair, not through products.
  bool compares_pairs() const {
    return context_.model.similarity() == Similarity::kL1 || context_.model.similarity() == Similarity::kModulus;
  }
  bool uses_squares() const { return context_.model.similarity() == Similarity::kL2; }

  const PassContext context_;
  bool whole_ = true;                                        // whether rows have all their columns here
  const std::int64_t dim_;                                   // of entities, queries and negatives
  BufferRows query_;                                         // (B, dim)
  BufferRows negative_;                                      // (chunks * columns, dim): the own side first, if any
  BufferRows own_gradient_;                                  // (B, dim): of the own side, as negatives
  BufferRows weight_;                                        // (B, columns): d loss / d comparison
  Buffer panel_;                                             // per chunk, `vectors` panels of (dim, 16)
  Buffer negative_square_;                                   // (chunks, 16 * vectors)
  std::vector<float> positive_score_, score_gradient_, saved_, query_square_;  // (B,)
  std::vector<Scratch> scratch_;                             // one per worker
};

}  // namespace

std::unique_ptr<GradientPass> make_shared_pass(const PassContext& context) {
  return std::make_unique<SharedPass>(context);
}

}  // namespace frugal
