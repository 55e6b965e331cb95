// Gradients of a TransR step, where every negative of a chunk is projected for each relation that the chunk has.
//
// A group is edges of one relation in one chunk; they share the projected negatives. A stripe is a few groups of one
// chunk, whose gradients by the chunk's negatives are one sum. Where groups and stripes end depends on the batch alone,
// so that no sum depends on the number of threads. Phases of independent tasks:
//   queries:   query and positive score of each edge, stored group after group; the negatives copied
//   scores:    per stripe, group by group: negatives projected, comparisons, losses, weights, all gradients
//   negatives: per block of negatives: the sums of the chunk's stripes, in order
#include <stdexcept>
#include <cstring>

#include "step/gradients.h"
#include "step/query_losses.h"
#include "step/shape.h"
#include "step/tasks.h"

namespace frugal {
namespace {

constexpr std::int64_t kStripe = 48;  // edges of a stripe, plus two for each of its groups

class ProjectedPass final : public GradientPass {
 public:
  explicit ProjectedPass(const PassContext& context)
      : context_(context),
        entity_dim_(context.model.spec().entity_dim),
        relation_dim_(context.model.spec().relation_dim),
        scratch_(context.pool.threads()) {
    query_.stride = padded_stride(relation_dim_);
    negative_.stride = stripe_sum_.stride = padded_stride(entity_dim_);
    for (auto& scratch : scratch_) {
      for (auto* rows : {&scratch.matrix, &scratch.matrix_gradient, &scratch.projected, &scratch.projected_gradient,
                         &scratch.edge_gradient, &scratch.query_gradient})
        rows->stride = padded_stride(relation_dim_);
      scratch.entity_gradient.stride = padded_stride(entity_dim_);
    }
  }

  bool run(const Batch& batch, const StepPointers& rows, EdgeGradients& out, PhaseClock& clock,
           const UpdateRelation&, ColumnRanks* ranks) override {
    if (ranks) throw std::logic_error("a projection needs whole rows");
    const BatchShape shape(batch, context_.degree_negatives);
    positive_score_.resize(static_cast<std::size_t>(shape.positives));
    find_groups(batch, shape);

    const std::int64_t edge_tasks = pieces(shape.positives, kEdges), copies = shape.chunks * shape.columns;
    for_tasks(context_.pool, edge_tasks + pieces(copies, kEdges), [&](std::int64_t task, int) {
      if (task < edge_tasks) return prepare_edges(batch, rows, task * kEdges);
      const std::int64_t first = (task - edge_tasks) * kEdges;
      for (std::int64_t row = first; row < std::min(copies, first + kEdges); ++row) {
        const std::int32_t slot = shape.slot(batch, row / shape.columns, row % shape.columns);
        std::memcpy(negative_[row], rows.entities.source[slot], entity_dim_ * sizeof(float));
      }
    });
    clock.lap(PhaseClock::kQueries);

    for_tasks(context_.pool, static_cast<std::int64_t>(stripes_.size()), [&](std::int64_t task, int worker) {
      const Rows sum = stripe_sum_.from(task * shape.columns);
      for (std::int64_t j = 0; j < shape.columns; ++j) std::memset(sum[j], 0, entity_dim_ * sizeof(float));
      for (std::int64_t g = stripes_[task].first; g < stripes_[task].last; ++g)
        differentiate(batch, shape, rows, groups_[g], scratch_[worker], sum, out);
    });
    clock.lap(PhaseClock::kScores);

    for_tasks(context_.pool, pieces(copies, kEdges), [&](std::int64_t task, int) {
      for (std::int64_t row = task * kEdges; row < std::min(copies, (task + 1) * kEdges); ++row)
        add_stripes(batch, shape, row / shape.columns, row % shape.columns, out);
    });
    clock.lap(PhaseClock::kNegatives);
    return false;
  }

  void visit_buffers(const BatchShape& s, const BufferVisit& visit) override {
    query_.visit(s.positives, visit);
    negative_.visit(s.chunks * s.columns, visit);
    weight_.stride = padded_stride(s.vectors * kVector);
    weight_.visit(s.positives, visit);
    // An edge is work of three at most, with a group of its own.
    stripe_sum_.visit(s.chunks * (1 + 3 * s.chunk_size / kStripe) * s.columns, visit);
    for (auto& scratch : scratch_) {
      for (auto* rows : {&scratch.matrix, &scratch.matrix_gradient}) rows->visit(entity_dim_, visit);
      for (auto* rows : {&scratch.projected, &scratch.projected_gradient, &scratch.edge_gradient,
                         &scratch.entity_gradient})
        rows->visit(s.columns, visit);
      scratch.query_gradient.visit(kEdges, visit);
      visit(scratch.matrix_panels, pieces(entity_dim_, kVector) * kVector * relation_dim_);
      visit(scratch.panels, s.vectors * kVector * relation_dim_);
      visit(scratch.slope, weight_.stride);
    }
  }

 private:
  struct Group {
    std::int64_t chunk;
    std::int32_t relation;      // slot
    std::int64_t first, count;  // positions
  };

  struct Stripe {
    std::int64_t chunk, first, last;  // groups [first, last)
  };

  struct Scratch {
    BufferRows matrix;              // (entity_dim, relation_dim): a copy with room for whole vectors
    Buffer matrix_panels;           // the same on its side
    BufferRows matrix_gradient;     // (entity_dim, relation_dim)
    BufferRows projected;           // (columns, relation_dim)
    BufferRows projected_gradient;  // (columns, relation_dim): of the group
    BufferRows edge_gradient;       // (columns, relation_dim): of one edge
    Buffer panels;                  // of projected
    BufferRows query_gradient;      // (kEdges, relation_dim)
    BufferRows entity_gradient;     // (columns, entity_dim)
    Buffer slope;
  };

  // Positions: edges chunk after chunk, in a chunk by relation, in a relation as in the batch. A group has at most
  // kEdges edges and a stripe about kStripe times the work of projecting the negatives, so that threads share evenly.
  void find_groups(const Batch& batch, const BatchShape& s) {
    edge_.resize(s.positives);
    groups_.clear();
    stripes_.clear();
    for (std::int64_t i = 0; i < s.positives; ++i) edge_[i] = i;
    for (std::int64_t chunk = 0; chunk < s.chunks; ++chunk) {
      const std::int64_t begin = chunk * s.chunk_size, end = begin + s.chunk_size;
      std::stable_sort(edge_.begin() + begin, edge_.begin() + end,
                       [&](std::int64_t a, std::int64_t b) { return batch.relation_slot[a] < batch.relation_slot[b]; });
      std::int64_t work = kStripe;
      for (std::int64_t first = begin, last; first < end; first = last) {
        const std::int32_t relation = batch.relation_slot[edge_[first]];
        for (last = first + 1; last < end && last < first + kEdges && batch.relation_slot[edge_[last]] == relation;)
          ++last;
        const auto group = static_cast<std::int64_t>(groups_.size());
        if (work >= kStripe) {
          stripes_.push_back({chunk, group, group});
          work = 0;
        }
        groups_.push_back({chunk, relation, first, last - first});
        stripes_.back().last = group + 1;
        work += 2 + last - first;  // projected, brought back, and a gradient of the matrix for each edge
      }
    }
  }

  static Triple triple(const Batch& batch, const StepPointers& rows, std::int64_t edge) {
    const std::int32_t relation = batch.relation_slot[edge];
    return {rows.entities.source[batch.head_slot[edge]], rows.relations.source[relation],
            rows.entities.source[batch.tail_slot[edge]], rows.projections.source[relation]};
  }

  void prepare_edges(const Batch& batch, const StepPointers& rows, std::int64_t first) {
    for (std::int64_t position = first; position < std::min(batch.positives(), first + kEdges); ++position)
      positive_score_[position] =
          context_.model.forward(triple(batch, rows, edge_[position]), batch.corrupt_head, query_[position], nullptr);
  }

  void copy_matrix(const float* source, Scratch& scratch) const {
    for (std::int64_t i = 0; i < entity_dim_; ++i)
      std::memcpy(scratch.matrix[i], source + i * relation_dim_, relation_dim_ * sizeof(float));
  }

  // Turns `count` rows of floats into panels of sixteen; the last row fills up the last panel.
  void pack(const Rows& from, std::int64_t count, std::int64_t dim, float* panels) const {
    for (std::int64_t panel = 0; panel < pieces(count, kVector); ++panel) {
      const float* rows[kVector];
      for (std::int64_t l = 0; l < kVector; ++l) rows[l] = from[std::min(panel * kVector + l, count - 1)];
      context_.kernels.pack(rows, dim, panels + panel * kVector * dim);
    }
  }

  // All gradients of a group; that by the negatives is added to `sum` (columns, entity_dim).
  void differentiate(const Batch& batch, const BatchShape& s, const StepPointers& rows, const Group& group,
                     Scratch& scratch, Rows sum, EdgeGradients& out) {
    const Kernels& kernels = context_.kernels;
    copy_matrix(rows.projections.source[group.relation], scratch);
    const Rows negative = negative_.from(group.chunk * s.columns), projected = scratch.projected.from(0);
    kernels.multiply(s.columns, pieces(relation_dim_, kVector), entity_dim_, {negative.data, negative.stride, 1},
                     {scratch.matrix[0], scratch.matrix.stride, kVector}, projected);
    pack(projected, s.columns, relation_dim_, scratch.panels.data());
    const Rows query = query_.from(group.first), weight = weight_.from(group.first);
    kernels.compare(Similarity::kL1, group.count, s.vectors, relation_dim_, query, scratch.panels.data(), weight);
    float score_gradient[kEdges];
    for (std::int64_t i = 0; i < group.count; ++i) {
      const ScoredQuery query{edge_[group.first + i], positive_score_[group.first + i], 0.0f};
      score_gradient[i] = take_losses(context_, batch, s, query, nullptr, weight[i], scratch.slope.data(), out);
    }

    const Rows query_gradient = scratch.query_gradient.from(0), projected_gradient = scratch.projected_gradient.from(0);
    kernels.gradient(Similarity::kL1, group.count, s.columns, relation_dim_, query, projected, weight.data,
                     weight.stride, 1, query_gradient);
    kernels.gradient(Similarity::kL1, s.columns, group.count, relation_dim_, projected, query, weight.data, 1,
                     weight.stride, projected_gradient);
    for (std::int64_t i = 0; i < group.count; ++i) {
      const std::int64_t edge = edge_[group.first + i];
      context_.model.backward(triple(batch, rows, edge), batch.corrupt_head, 0.0f, score_gradient[i], query_gradient[i],
                              {out.head[edge], out.relation[edge], out.tail[edge], out.projection_factors[edge]});
      Rows of_edge = projected_gradient;
      if (group.count > 1) {
        of_edge = scratch.edge_gradient.from(0);
        kernels.gradient(Similarity::kL1, s.columns, 1, relation_dim_, projected, query_.from(group.first + i),
                         weight[i], 1, 0, of_edge);
      }
      differentiate_matrix(batch, s, triple(batch, rows, edge), negative, of_edge, query_gradient[i], scratch,
                           out.projection[edge]);
    }

    const Rows back = scratch.entity_gradient.from(0);
    pack(scratch.matrix.from(0), entity_dim_, relation_dim_, scratch.matrix_panels.data());
    kernels.multiply(s.columns, pieces(entity_dim_, kVector), relation_dim_,
                     {projected_gradient.data, projected_gradient.stride, 1},
                     {scratch.matrix_panels.data(), kVector, kVector * relation_dim_}, back);
    for (std::int64_t j = 0; j < s.columns; ++j) add_to(sum[j], back[j], entity_dim_);
  }

  // d M of one edge's negatives: the sum of b (gradient of b M)^T over negatives b, and fixed (query gradient)^T.
  void differentiate_matrix(const Batch& batch, const BatchShape& s, const Triple& x, Rows negative,
                            Rows projected_gradient, const float* query_gradient, Scratch& scratch, float* out) {
    context_.kernels.multiply(
        entity_dim_, pieces(relation_dim_, kVector), s.columns, {negative.data, 1, negative.stride},
        {projected_gradient.data, projected_gradient.stride, kVector}, scratch.matrix_gradient.from(0));
    const float* fixed = batch.corrupt_head ? x.tail : x.head;
    for (std::int64_t a = 0; a < entity_dim_; ++a) {
      const float* row = scratch.matrix_gradient[a];
      for (std::int64_t c = 0; c < relation_dim_; ++c)
        out[a * relation_dim_ + c] = row[c] + fixed[a] * query_gradient[c];
    }
  }

  // The gradient of one negative; that of the chunk's own side is added to its edge's.
  void add_stripes(const Batch& batch, const BatchShape& s, std::int64_t chunk, std::int64_t column,
                   EdgeGradients& out) {
    float* gradient = column < s.own ? (batch.corrupt_head ? out.head : out.tail)[chunk * s.chunk_size + column]
                                     : out.negative[chunk * s.negatives + column - s.own];
    if (column >= s.own) std::memset(gradient, 0, entity_dim_ * sizeof(float));
    const auto by_chunk = [](const Stripe& stripe, std::int64_t wanted) { return stripe.chunk < wanted; };
    const auto first = std::lower_bound(stripes_.begin(), stripes_.end(), chunk, by_chunk);
    for (auto stripe = first; stripe != stripes_.end() && stripe->chunk == chunk; ++stripe)
      add_to(gradient, stripe_sum_[(stripe - stripes_.begin()) * s.columns + column], entity_dim_);
  }

  const PassContext context_;
  const std::int64_t entity_dim_, relation_dim_;
  BufferRows query_;                   // (B, relation_dim), by position
  BufferRows negative_;                // (chunks * columns, entity_dim): the own side first, if any
  BufferRows weight_;                  // (B, columns), by position: d loss / d comparison
  std::vector<float> positive_score_;  // (B,), by position
  std::vector<std::int64_t> edge_;     // (B,) edge at each position
  std::vector<Group> groups_;
  std::vector<Stripe> stripes_;
  BufferRows stripe_sum_;         // (stripes * columns, entity_dim)
  std::vector<Scratch> scratch_;  // one per worker
};

}  // namespace

std::unique_ptr<GradientPass> make_projected_pass(const PassContext& context) {
  return std::make_unique<ProjectedPass>(context);
}

}  // namespace frugal
