// TransE (Bordes et al. 2013): score = gamma - |h + r - t|, Euclidean (l2) or sum of absolute values (l1).
#include <cmath>

#include "models/registry.h"
#include "linalg/row.h"

namespace frugal {
namespace {

using namespace FRUGAL_ISA;

void translate(const Triple& x, bool corrupt_head, std::int64_t dim, float* query) {
  for_row(dim, [&](std::int64_t i, auto read, auto write) {
    const Vec relation = read(x.relation + i);
    write(query + i, corrupt_head ? read(x.tail + i) - relation : read(x.head + i) + relation);
  });
}

// Hands the gradients on: p, that of h + r - t of the positive, is positive(h + r - t), elementwise.
template <typename Positive>
void spread(const Triple& x, std::int64_t dim, bool corrupt_head, const float* query_gradient, const TripleGradient& out,
            Positive positive) {
  const auto block = [&](std::int64_t i, auto read, auto write) {
    const Vec p = positive(read(x.head + i) + read(x.relation + i) - read(x.tail + i)), q = read(query_gradient + i);
    const Vec zero = broadcast(0.0f);
    write(out.head + i, corrupt_head ? p : p + q);
    write(out.relation + i, corrupt_head ? p - q : p + q);
    write(out.tail + i, corrupt_head ? q - p : zero - p);
  };
  for_row(dim, block);
}

class TransEL2 final : public Model {
 public:
  explicit TransEL2(const ModelSpec& spec) : Model(spec, Similarity::kL2) {}

  float forward(const Triple& x, bool corrupt_head, float* query, float* memo) const override {
    translate(x, corrupt_head, spec_.entity_dim, query);
    const float square = sum_row(spec_.entity_dim, [&](auto row) {
      const Vec difference = row(x.head) + row(x.relation) - row(x.tail);
      return difference * difference;
    });
    *memo = std::sqrt(square);
    return spec_.gamma - *memo;
  }
  void backward(const Triple& x, bool corrupt_head, float norm, float score_gradient, const float* query_gradient,
                const TripleGradient& out) const override {
    const float factor = norm > 0.0f ? -score_gradient / norm : 0.0f;
    spread(x, spec_.entity_dim, corrupt_head, query_gradient, out,
           [&](Vec difference) { return broadcast(factor) * difference; });
  }
};

class TransEL1 final : public Model {
 public:
  explicit TransEL1(const ModelSpec& spec) : Model(spec, Similarity::kL1) {}

  float forward(const Triple& x, bool corrupt_head, float* query, float*) const override {
    translate(x, corrupt_head, spec_.entity_dim, query);
    return spec_.gamma - sum_row(spec_.entity_dim, [&](auto row) { return abs(row(x.head) + row(x.relation) - row(x.tail)); });
  }
  void backward(const Triple& x, bool corrupt_head, float, float score_gradient, const float* query_gradient,
                const TripleGradient& out) const override {
    spread(x, spec_.entity_dim, corrupt_head, query_gradient, out, [&](Vec difference) {
      return sign(difference) * broadcast(-score_gradient);
    });
  }
};

}  // namespace

std::unique_ptr<Model> make_transe_l1(const ModelSpec& spec) {
  require_equal_dims(spec);
  return std::make_unique<TransEL1>(spec);
}
std::unique_ptr<Model> make_transe_l2(const ModelSpec& spec) {
  require_equal_dims(spec);
  return std::make_unique<TransEL2>(spec);
}

}  // namespace frugal
