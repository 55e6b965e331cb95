// DistMult (Yang et al. 2015): score = sum h r t.
#include "models/registry.h"
#include "linalg/row.h"

namespace frugal {
namespace {

using namespace FRUGAL_ISA;

class DistMult final : public Model {
 public:
  explicit DistMult(const ModelSpec& spec) : Model(spec, Similarity::kDot) {}

  float forward(const Triple& x, bool corrupt_head, float* query, float*) const override {
    const float* fixed = corrupt_head ? x.tail : x.head;
    const float* corrupted = corrupt_head ? x.head : x.tail;
    for (std::int64_t i = 0; i < spec_.entity_dim; ++i) query[i] = fixed[i] * x.relation[i];
    return dot(query, corrupted, spec_.entity_dim);
  }
  void backward(const Triple& x, bool corrupt_head, float, float score_gradient, const float* query_gradient,
                const TripleGradient& out) const override {
    const float* fixed = corrupt_head ? x.tail : x.head;
    const float* corrupted = corrupt_head ? x.head : x.tail;
    float* __restrict fixed_gradient = corrupt_head ? out.tail : out.head;
    float* __restrict corrupted_gradient = corrupt_head ? out.head : out.tail;
    float* __restrict relation_gradient = out.relation;
    for (std::int64_t i = 0; i < spec_.entity_dim; ++i) {
      const float q = query_gradient[i] + score_gradient * corrupted[i];
      fixed_gradient[i] = q * x.relation[i];
      relation_gradient[i] = q * fixed[i];
      corrupted_gradient[i] = score_gradient * (fixed[i] * x.relation[i]);
    }
  }
};

}  // namespace

std::unique_ptr<Model> make_distmult(const ModelSpec& spec) {
  require_equal_dims(spec);
  return std::make_unique<DistMult>(spec);
}

}  // namespace frugal
