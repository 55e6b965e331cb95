// RESCAL (Nickel et al. 2011): score = h^T M t with a d x d matrix per relation, row by row. The query is M t for
// corrupted heads and M^T h for corrupted tails, so the score is its product with the corrupted entity.
#include <cstring>

#include "base/linalg/matrix.h"
#include "models/checks.h"
#include "models/large_models.h"

namespace frugal {
namespace {

using namespace FRUGAL_ISA;

class Rescal final : public Model {
 public:
  explicit Rescal(const ModelSpec& spec) : Model(spec, Similarity::kDot), dim_(spec.entity_dim) {}

  float forward(const Triple& x, bool corrupt_head, float* query, float*) const override {
    if (corrupt_head) {
      for (std::int64_t i = 0; i < dim_; ++i) query[i] = dot(x.relation + i * dim_, x.tail, dim_);
    } else {
      std::memset(query, 0, dim_ * sizeof(float));
      for (std::int64_t i = 0; i < dim_; ++i) add_multiple(x.head[i], x.relation + i * dim_, dim_, query);
    }
    return dot(query, corrupt_head ? x.head : x.tail, dim_);
  }
  // Positive and negatives have one query, so with q = query gradient + score gradient * corrupted entity the gradient
  // by M is of rank one: q t^T for corrupted heads, h q^T for corrupted tails. Kept as the two vectors.
  void backward(const Triple& x, bool corrupt_head, float, float score_gradient, const float* query_gradient,
                const TripleGradient& out) const override {
    float* left = out.relation;
    float* right = out.relation + dim_;
    const float* corrupted = corrupt_head ? x.head : x.tail;
    float* of_query = corrupt_head ? left : right;
    std::memcpy(corrupt_head ? right : left, corrupt_head ? x.tail : x.head, dim_ * sizeof(float));
    for (std::int64_t i = 0; i < dim_; ++i) of_query[i] = query_gradient[i] + score_gradient * corrupted[i];

    std::memset(out.tail, 0, dim_ * sizeof(float));
    for (std::int64_t i = 0; i < dim_; ++i) {
      const float* row = x.relation + i * dim_;
      if (corrupt_head) {
        add_multiple(left[i], row, dim_, out.tail);
        out.head[i] = score_gradient * dot(row, x.tail, dim_);
      } else {
        add_multiple(score_gradient * x.head[i], row, dim_, out.tail);
        out.head[i] = dot(row, right, dim_);
      }
    }
  }

  std::int64_t relation_gradient_floats() const override { return 2 * dim_; }
  void expand(const float* stored, std::int64_t first, std::int64_t count, float* gradient) const override {
    const float* right = stored + dim_;
    fill_range(dim_, first, count, gradient,
               [&](std::int64_t i, std::int64_t j, auto read) { return broadcast(stored[i]) * read(right + j); });
  }

 private:
  const std::int64_t dim_;
};

}  // namespace

std::unique_ptr<Model> make_rescal(const ModelSpec& spec) {
  require(spec.relation_dim == spec.entity_dim * spec.entity_dim, spec,
          "needs relation rows of entity_dim * entity_dim floats");
  if (spec.rule == ScoreRule::kDglke) return make_rescal_of_dglke(spec);
  return std::make_unique<Rescal>(spec);
}

}  // namespace frugal
