// A model written as a row program, behind the interface of a model.
//
// A row program is a struct of static functions on Vecs: raw, finish and backward as Model has them, with the numbers
// of the model as the first argument, kNames, kSimilarity, and check, which throws for dimensions that do not fit.
// columnwise.h has backward for models that go column by column.
#pragma once

#include <cmath>
#include <memory>
#include <string_view>

#include "models/model.h"

namespace frugal {

// The numbers of its model that a row program needs.
struct ModelNumbers {
  std::int64_t entity_dim, relation_dim;
  float gamma;
  float phase_unit;  // RotatE: the relation value that means one radian
};

template <typename Program>
class RowModel final : public Model {
 public:
  explicit RowModel(const ModelSpec& spec)
      : Model(spec, Program::kSimilarity),
        numbers_{spec.entity_dim, spec.relation_dim, spec.gamma, spec.embedding_range / static_cast<float>(M_PI)} {
    Program::check(spec);
  }
  float forward(const Triple& x, bool corrupt_head, float* query, float* saved) const override {
    return finish(raw(x, corrupt_head, query), saved);
  }
  float raw(const Triple& x, bool corrupt_head, float* query) const override {
    return Program::raw(numbers_, x, corrupt_head, query);
  }
  float finish(float raw, float* saved) const override { return Program::finish(numbers_, raw, saved); }
  void backward(const Triple& x, bool corrupt_head, float saved, float score_gradient, const float* query_gradient,
                const TripleGradient& out) const override {
    Program::backward(numbers_, x, corrupt_head, saved, score_gradient, query_gradient, out);
  }

 private:
  const ModelNumbers numbers_;
};

}  // namespace frugal
