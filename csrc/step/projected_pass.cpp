// Gradients of a TransR step, where every negative of a chunk is projected for each relation that the chunk has.
//
// A group is the edges of one relation in one chunk; they share the projected negatives. Phases of independent tasks:
//   queries:   query and positive score of each edge, stored group after group; the negatives copied
//   scores:    per group: negatives projected, comparisons, losses, weights, gradients of queries, positives and
//   projections negatives: per block of negatives, over the chunk's groups in order: projected once more (less work
//   than keeping every
//              projection), gradients gathered and brought back through the matrix
#include <cstring>

#include "step/gradients.h"
#include "step/query_losses.h"
#include "step/shape.h"
#include "step/tasks.h"

namespace frugal {
namespace {

class ProjectedPass final : public GradientPass {
 public:
  explicit ProjectedPass(const PassContext& context)
      : context_(context),
        entity_dim_(context.model.spec().entity_dim),
        relation_dim_(context.model.spec().relation_dim),
        scratch_(context.pool.threads()) {
    query_.stride = padded_stride(relation_dim_);
    negative_.stride = padded_stride(entity_dim_);
    for (auto& scratch : scratch_) {
      for (auto* rows : {&scratch.matrix, &scratch.matrix_gradient}) {
        rows->stride = padded_stride(relation_dim_);
        rows->reserve(entity_dim_);
      }
      for (auto* rows : {&scratch.projected, &scratch.projected_gradient}) rows->stride = padded_stride(relation_dim_);
      scratch.entity_gradient.stride = scratch.sum.stride = padded_stride(entity_dim_);
      for (auto* rows : {&scratch.entity_gradient, &scratch.sum}) rows->reserve(kBlock);
      scratch.matrix_panels.reserve(pieces(entity_dim_, kVector) * kVector * relation_dim_);
    }
  }

  bool run(const Batch& batch, const StepPointers& rows, LeafGradients& out, PhaseClock& clock,
           const UpdateRelation&) override {
    const BatchShape shape(batch, context_.degree_negatives);
    reserve(shape);
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

    for_tasks(context_.pool, static_cast<std::int64_t>(groups_.size()),
              [&](std::int64_t task, int worker) { score(batch, shape, rows, groups_[task], scratch_[worker], out); });
    clock.lap(PhaseClock::kScores);

    const std::int64_t own_blocks = pieces(shape.own, kBlock), blocks = own_blocks + pieces(shape.negatives, kBlock);
    for_tasks(context_.pool, shape.chunks * blocks, [&](std::int64_t task, int worker) {
      const std::int64_t block = task % blocks;
      const bool own = block < own_blocks;
      const std::int64_t first = own ? block * kBlock : shape.own + (block - own_blocks) * kBlock;
      const std::int64_t count = std::min(kBlock, (own ? shape.own : shape.columns) - first);
      differentiate(batch, shape, rows, task / blocks, first, count, scratch_[worker], out);
    });
    clock.lap(PhaseClock::kNegatives);
    return false;
  }

 private:
  struct Group {
    std::int64_t chunk;
    std::int32_t relation;      // slot
    std::int64_t first, count;  // positions
  };

  struct Scratch {
    BufferRows matrix;                // (entity_dim, relation_dim): a copy with room for whole vectors
    Buffer matrix_panels;             // the same on its side
    BufferRows matrix_gradient;       // (entity_dim, relation_dim)
    BufferRows projected;             // (columns, relation_dim)
    BufferRows projected_gradient;    // (columns, relation_dim)
    Buffer panels;                    // of projected
    BufferRows query_gradient;        // (chunk_size, relation_dim)
    BufferRows entity_gradient, sum;  // (kBlock, entity_dim)
    Buffer slope;
  };

  void reserve(const BatchShape& s) {
    query_.reserve(s.positives);
    negative_.reserve(s.chunks * s.columns);
    weight_.stride = padded_stride(s.vectors * kVector);
    weight_.reserve(s.positives);
    positive_score_.resize(static_cast<std::size_t>(s.positives));
    for (auto& scratch : scratch_) {
      scratch.projected.reserve(s.columns);
      scratch.projected_gradient.reserve(s.columns);
      scratch.panels.reserve(s.vectors * kVector * relation_dim_);
      scratch.query_gradient.stride = query_.stride;
      scratch.query_gradient.reserve(s.chunk_size);
      scratch.slope.reserve(weight_.stride);
    }
  }

  // Positions: edges chunk after chunk, in a chunk by relation, in a relation as in the batch.
  void find_groups(const Batch& batch, const BatchShape& s) {
    edge_.resize(s.positives);
    groups_.clear();
    for (std::int64_t i = 0; i < s.positives; ++i) edge_[i] = i;
    for (std::int64_t chunk = 0; chunk < s.chunks; ++chunk) {
      const auto begin = edge_.begin() + chunk * s.chunk_size;
      std::stable_sort(begin, begin + s.chunk_size,
                       [&](std::int64_t a, std::int64_t b) { return batch.relation_slot[a] < batch.relation_slot[b]; });
      for (std::int64_t position = chunk * s.chunk_size; position < (chunk + 1) * s.chunk_size; ++position) {
        const std::int32_t relation = batch.relation_slot[edge_[position]];
        if (groups_.empty() || groups_.back().chunk != chunk || groups_.back().relation != relation)
          groups_.push_back({chunk, relation, position, 0});
        ++groups_.back().count;
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

  // Projects `count` of the copied negatives.
  void project(std::int64_t first, std::int64_t count, Scratch& scratch) {
    context_.kernels.multiply(count, pieces(relation_dim_, kVector), entity_dim_,
                              {negative_[first], negative_.stride, 1},
                              {scratch.matrix[0], scratch.matrix.stride, kVector}, scratch.projected.from(0));
  }

  // Turns `count` rows of floats into panels of sixteen; the last row fills up the last panel.
  void pack(const Rows& from, std::int64_t count, std::int64_t dim, float* panels) const {
    for (std::int64_t panel = 0; panel < pieces(count, kVector); ++panel) {
      const float* rows[kVector];
      for (std::int64_t l = 0; l < kVector; ++l) rows[l] = from[std::min(panel * kVector + l, count - 1)];
      context_.kernels.pack(rows, dim, panels + panel * kVector * dim);
    }
  }

  void score(const Batch& batch, const BatchShape& s, const StepPointers& rows, const Group& group, Scratch& scratch,
             LeafGradients& out) {
    copy_matrix(rows.projections.source[group.relation], scratch);
    project(group.chunk * s.columns, s.columns, scratch);
    pack(scratch.projected.from(0), s.columns, relation_dim_, scratch.panels.data());
    const Rows query = query_.from(group.first), weight = weight_.from(group.first);
    context_.kernels.compare(Similarity::kL1, group.count, s.vectors, relation_dim_, query, scratch.panels.data(),
                             weight);
    std::vector<float> score_gradient(group.count);
    for (std::int64_t i = 0; i < group.count; ++i) {
      const QueryFacts facts{edge_[group.first + i], positive_score_[group.first + i], 0.0f};
      score_gradient[i] = take_losses(context_, batch, s, facts, nullptr, weight[i], scratch.slope.data(), out);
    }
    const Rows query_gradient = scratch.query_gradient.from(0);
    context_.kernels.gradient(Similarity::kL1, group.count, s.columns, relation_dim_, query, scratch.projected.from(0),
                              weight.data, weight.stride, 1, query_gradient);
    for (std::int64_t i = 0; i < group.count; ++i) {
      const std::int64_t edge = edge_[group.first + i];
      context_.model.backward(triple(batch, rows, edge), batch.corrupt_head, 0.0f, score_gradient[i], query_gradient[i],
                              {out.head[edge], out.relation[edge], out.tail[edge], out.projection_factors[edge]});
      differentiate_matrix(batch, s, rows, group, i, query_gradient[i], scratch, out.projection[edge]);
    }
  }

  // d M of one edge's negatives: the sum of b (gradient of b M)^T over negatives b, and fixed (query gradient)^T.
  void differentiate_matrix(const Batch& batch, const BatchShape& s, const StepPointers& rows, const Group& group,
                            std::int64_t i, const float* query_gradient, Scratch& scratch, float* out) {
    const std::int64_t position = group.first + i;
    context_.kernels.gradient(Similarity::kL1, s.columns, 1, relation_dim_, scratch.projected.from(0),
                              query_.from(position), weight_[position], 1, 0, scratch.projected_gradient.from(0));
    context_.kernels.multiply(entity_dim_, pieces(relation_dim_, kVector), s.columns,
                              {negative_[group.chunk * s.columns], 1, negative_.stride},
                              {scratch.projected_gradient[0], scratch.projected_gradient.stride, kVector},
                              scratch.matrix_gradient.from(0));
    const Triple x = triple(batch, rows, edge_[position]);
    const float* fixed = batch.corrupt_head ? x.tail : x.head;
    for (std::int64_t a = 0; a < entity_dim_; ++a) {
      const float* row = scratch.matrix_gradient[a];
      for (std::int64_t c = 0; c < relation_dim_; ++c)
        out[a * relation_dim_ + c] = row[c] + fixed[a] * query_gradient[c];
    }
  }

  void differentiate(const Batch& batch, const BatchShape& s, const StepPointers& rows, std::int64_t chunk,
                     std::int64_t first, std::int64_t count, Scratch& scratch, LeafGradients& out) {
    const Rows sum = scratch.sum.from(0), back = scratch.entity_gradient.from(0);
    for (std::int64_t i = 0; i < count; ++i) std::memset(sum[i], 0, entity_dim_ * sizeof(float));
    for (const Group& group : groups_) {
      if (group.chunk != chunk) continue;
      copy_matrix(rows.projections.source[group.relation], scratch);
      project(chunk * s.columns + first, count, scratch);
      context_.kernels.gradient(Similarity::kL1, count, group.count, relation_dim_, scratch.projected.from(0),
                                query_.from(group.first), weight_[group.first] + first, 1, weight_.stride,
                                scratch.projected_gradient.from(0));
      pack(scratch.matrix.from(0), entity_dim_, relation_dim_, scratch.matrix_panels.data());
      context_.kernels.multiply(count, pieces(entity_dim_, kVector), relation_dim_,
                                {scratch.projected_gradient[0], scratch.projected_gradient.stride, 1},
                                {scratch.matrix_panels.data(), kVector, kVector * relation_dim_}, back);
      for (std::int64_t i = 0; i < count; ++i) add_to(sum[i], back[i], entity_dim_);
    }
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t column = first + i;
      if (column < s.own)
        add_to((batch.corrupt_head ? out.head : out.tail)[chunk * s.chunk_size + column], sum[i], entity_dim_);
      else
        std::memcpy(out.negative[chunk * s.negatives + column - s.own], sum[i], entity_dim_ * sizeof(float));
    }
  }

  const PassContext context_;
  const std::int64_t entity_dim_, relation_dim_;
  BufferRows query_;                   // (B, relation_dim), by position
  BufferRows negative_;                // (chunks * columns, entity_dim): the own side first, if any
  BufferRows weight_;                  // (B, columns), by position: d loss / d comparison
  std::vector<float> positive_score_;  // (B,), by position
  std::vector<std::int64_t> edge_;     // (B,) edge at each position
  std::vector<Group> groups_;
  std::vector<Scratch> scratch_;  // one per worker
};

}  // namespace

std::unique_ptr<GradientPass> make_projected_pass(const PassContext& context) {
  return std::make_unique<ProjectedPass>(context);
}

}  // namespace frugal
