// SimplE (Kazemi and Poole 2018): each entity has a head and a tail half, each relation a forward and an inverse half;
// score = 1/2 sum (head_h r tail_t + head_t r' tail_h), clamped to [-20, 20].
#include <algorithm>
#include <cmath>

#include "models/registry.h"
#include "linalg/row.h"

namespace frugal {
namespace {

using namespace FRUGAL_ISA;

constexpr float kBound = 20.0f;

// With f the fixed and c the corrupted entity the score is 1/2 sum (c_1 p f_2 + c_2 q f_1): the head corrupted, p = r and
// q = r'; the tail corrupted, the other way round. The query is 1/2 (p f_2, q f_1).
class SimplE final : public Model {
 public:
  explicit SimplE(const ModelSpec& spec) : Model(spec, Similarity::kClampedDot) {}

  float forward(const Triple& x, bool corrupt_head, float* query, float* memo) const override {
    const std::int64_t half = spec_.entity_dim / 2;
    const float* fixed = corrupt_head ? x.tail : x.head;
    const float* p = x.relation + (corrupt_head ? 0 : half);
    const float* q = x.relation + (corrupt_head ? half : 0);
    for (std::int64_t i = 0; i < half; ++i) {
      query[i] = 0.5f * (p[i] * fixed[half + i]);
      query[half + i] = 0.5f * (q[i] * fixed[i]);
    }
    const float raw = dot(query, corrupt_head ? x.head : x.tail, spec_.entity_dim);
    *memo = std::abs(raw) <= kBound ? 1.0f : 0.0f;
    return std::clamp(raw, -kBound, kBound);
  }
  void backward(const Triple& x, bool corrupt_head, float slope, float score_gradient, const float* query_gradient,
                const TripleGradient& out) const override {
    const std::int64_t half = spec_.entity_dim / 2;
    const float* fixed = corrupt_head ? x.tail : x.head;
    const float* corrupted = corrupt_head ? x.head : x.tail;
    const std::int64_t p_at = corrupt_head ? 0 : half, q_at = half - p_at;
    const float* p = x.relation + p_at;
    const float* q = x.relation + q_at;
    float* __restrict fixed_gradient = corrupt_head ? out.tail : out.head;
    float* __restrict corrupted_gradient = corrupt_head ? out.head : out.tail;
    float* __restrict relation_gradient = out.relation;
    const float positive = slope * score_gradient;
    for (std::int64_t i = 0; i < half; ++i) {
      const float first = 0.5f * (query_gradient[i] + positive * corrupted[i]);
      const float second = 0.5f * (query_gradient[half + i] + positive * corrupted[half + i]);
      fixed_gradient[half + i] = first * p[i];
      fixed_gradient[i] = second * q[i];
      relation_gradient[p_at + i] = first * fixed[half + i];
      relation_gradient[q_at + i] = second * fixed[i];
      corrupted_gradient[i] = positive * (0.5f * (p[i] * fixed[half + i]));
      corrupted_gradient[half + i] = positive * (0.5f * (q[i] * fixed[i]));
    }
  }
};

}  // namespace

std::unique_ptr<Model> make_simple(const ModelSpec& spec) {
  require_equal_dims(spec);
  require_even(spec.entity_dim, spec);
  return std::make_unique<SimplE>(spec);
}

}  // namespace frugal
