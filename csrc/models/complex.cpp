// ComplEx (Trouillon et al. 2016): score = Re sum h r conj(t); real parts in the first half of a row, imaginary in the second.
#include "models/registry.h"
#include "linalg/row.h"

namespace frugal {
namespace {

using namespace FRUGAL_ISA;

// The score is Re sum f r' conj(c) with f the fixed and c the corrupted entity, and r' = r where the tail is corrupted,
// conj(r) where the head is. The query is f r'.
class ComplEx final : public Model {
 public:
  explicit ComplEx(const ModelSpec& spec) : Model(spec, Similarity::kDot) {}

  float forward(const Triple& x, bool corrupt_head, float* query, float*) const override {
    const std::int64_t half = spec_.entity_dim / 2;
    const float* fixed = corrupt_head ? x.tail : x.head;
    const float conjugate = corrupt_head ? -1.0f : 1.0f;
    for (std::int64_t i = 0; i < half; ++i) {
      const float re = x.relation[i], im = conjugate * x.relation[half + i];
      query[i] = fixed[i] * re - fixed[half + i] * im;
      query[half + i] = fixed[i] * im + fixed[half + i] * re;
    }
    return dot(query, corrupt_head ? x.head : x.tail, spec_.entity_dim);
  }
  void backward(const Triple& x, bool corrupt_head, float, float score_gradient, const float* query_gradient,
                const TripleGradient& out) const override {
    const std::int64_t half = spec_.entity_dim / 2;
    const float* fixed = corrupt_head ? x.tail : x.head;
    const float* corrupted = corrupt_head ? x.head : x.tail;
    float* __restrict fixed_gradient = corrupt_head ? out.tail : out.head;
    float* __restrict corrupted_gradient = corrupt_head ? out.head : out.tail;
    float* __restrict relation_gradient = out.relation;
    const float conjugate = corrupt_head ? -1.0f : 1.0f;
    for (std::int64_t i = 0; i < half; ++i) {
      const float re = x.relation[i], im = conjugate * x.relation[half + i];
      const float a = fixed[i], b = fixed[half + i];
      const float p = query_gradient[i] + score_gradient * corrupted[i];
      const float q = query_gradient[half + i] + score_gradient * corrupted[half + i];
      fixed_gradient[i] = p * re + q * im;
      fixed_gradient[half + i] = q * re - p * im;
      relation_gradient[i] = p * a + q * b;
      relation_gradient[half + i] = conjugate * (q * a - p * b);
      corrupted_gradient[i] = score_gradient * (a * re - b * im);
      corrupted_gradient[half + i] = score_gradient * (a * im + b * re);
    }
  }
};

}  // namespace

std::unique_ptr<Model> make_complex(const ModelSpec& spec) {
  require_equal_dims(spec);
  require_even(spec.entity_dim, spec);
  return std::make_unique<ComplEx>(spec);
}

}  // namespace frugal
