// RESCAL by ScoreRule::kDglke: the score of a positive is h^T M t, but the query of corrupted tails is M h and not its
// transpose, so a negative tail b is scored b^T M h.
#include <cstring>

#include "base/linalg/matrix.h"
#include "models/large_models.h"

namespace frugal {
namespace {

using namespace FRUGAL_ISA;

class RescalOfDglke final : public Model {
 public:
  explicit RescalOfDglke(const ModelSpec& spec) : Model(spec, Similarity::kDot), dim_(spec.entity_dim) {}

  float forward(const Triple& x, bool corrupt_head, float* query, float*) const override {
    const float* fixed = corrupt_head ? x.tail : x.head;
    float score = 0.0f;
    for (std::int64_t i = 0; i < dim_; ++i) {
      const float* row = x.relation + i * dim_;
      query[i] = dot(row, fixed, dim_);
      score += x.head[i] * (corrupt_head ? query[i] : dot(row, x.tail, dim_));
    }
    return score;
  }
  // d M = (score gradient * h) t^T + (query gradient) f^T with f the fixed entity; kept as the four vectors.
  void backward(const Triple& x, bool corrupt_head, float, float score_gradient, const float* query_gradient,
                const TripleGradient& out) const override {
    float* head_factor = out.relation;
    float* query_factor = out.relation + 2 * dim_;
    for (std::int64_t i = 0; i < dim_; ++i) head_factor[i] = score_gradient * x.head[i];
    std::memcpy(out.relation + dim_, x.tail, dim_ * sizeof(float));
    std::memcpy(query_factor, query_gradient, dim_ * sizeof(float));
    std::memcpy(out.relation + 3 * dim_, corrupt_head ? x.tail : x.head, dim_ * sizeof(float));

    std::memset(out.head, 0, dim_ * sizeof(float));
    std::memset(out.tail, 0, dim_ * sizeof(float));
    for (std::int64_t i = 0; i < dim_; ++i) {
      const float* row = x.relation + i * dim_;
      if (corrupt_head) {
        add_multiple(head_factor[i] + query_factor[i], row, dim_, out.tail);
      } else {
        add_multiple(head_factor[i], row, dim_, out.tail);
        add_multiple(query_factor[i], row, dim_, out.head);
      }
      out.head[i] += score_gradient * dot(row, x.tail, dim_);
    }
  }

  std::int64_t relation_gradient_floats() const override { return 4 * dim_; }
  void expand(const float* stored, std::int64_t first, std::int64_t count, float* gradient) const override {
    const float* tail = stored + dim_;
    const float* query = stored + 2 * dim_;
    const float* fixed = stored + 3 * dim_;
    fill_range(dim_, first, count, gradient, [&](std::int64_t i, std::int64_t j, auto read) {
      return fma(broadcast(stored[i]), read(tail + j), broadcast(query[i]) * read(fixed + j));
    });
  }

 private:
  const std::int64_t dim_;
};

}  // namespace

std::unique_ptr<Model> make_rescal_of_dglke(const ModelSpec& spec) { return std::make_unique<RescalOfDglke>(spec); }

}  // namespace frugal
