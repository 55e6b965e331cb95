// TransR (Lin et al. 2015): entities are projected by a matrix M per relation; score = gamma - sum |h M + r - t M|. The
// query is t M - r for corrupted heads and h M + r for corrupted tails. By ScoreRule::kDglke it is h M - r there, so a
// negative tail b is at the distance sum |h M - r - b M|.
#include <vector>

#include "base/linalg/row.h"
#include "models/checks.h"
#include "models/large_models.h"

namespace frugal {
namespace {

using namespace FRUGAL_ISA;

class TransR final : public Model {
 public:
  explicit TransR(const ModelSpec& spec) : Model(spec, Similarity::kL1) {}

  bool projected() const override { return true; }

  float forward(const Triple& x, bool corrupt_head, float* query, float*) const override {
    const std::int64_t dim = spec_.relation_dim;
    project(corrupt_head ? x.tail : x.head, x.projection, query);
    const bool plus = adds_relation(corrupt_head);
    for (std::int64_t j = 0; j < dim; ++j) query[j] += plus ? x.relation[j] : -x.relation[j];
    const std::vector<float> difference = translation(x);
    return spec_.gamma - sum_row(dim, [&](std::int64_t j, auto read) { return abs(read(difference.data() + j)); });
  }

  // The gradient by M is (h - t) (gradient of h M + r - t M)^T + fixed (query gradient)^T + what the negatives give;
  // only the factors of the first are left in out.projection_factors, because the pass knows the others.
  void backward(const Triple& x, bool corrupt_head, float, float score_gradient, const float* query_gradient,
                const TripleGradient& out) const override {
    const std::int64_t rows = spec_.entity_dim, dim = spec_.relation_dim;
    float* left = out.projection_factors;
    float* right = left + rows;
    for (std::int64_t i = 0; i < rows; ++i) left[i] = x.head[i] - x.tail[i];
    const std::vector<float> difference = translation(x);
    const bool plus = adds_relation(corrupt_head);
    for_row(dim, [&](std::int64_t j, auto read, auto write) {
      const Vec u = read(difference.data() + j);
      const Vec positive = sign(u) * broadcast(-score_gradient);
      write(right + j, positive);
      const Vec of_query = read(query_gradient + j);
      write(out.relation + j, plus ? positive + of_query : positive - of_query);
    });
    float* fixed_gradient = corrupt_head ? out.tail : out.head;
    for (std::int64_t i = 0; i < rows; ++i) {
      const float* row = x.projection + i * dim;
      const float positive = dot(row, right, dim);
      out.head[i] = positive;
      out.tail[i] = -positive;
      fixed_gradient[i] += dot(row, query_gradient, dim);
    }
  }

 private:
  bool adds_relation(bool corrupt_head) const { return !corrupt_head && spec_.rule == ScoreRule::kTextbook; }
  // out = entity M
  void project(const float* entity, const float* matrix, float* out) const {
    const std::int64_t dim = spec_.relation_dim;
    for (std::int64_t j = 0; j < dim; ++j) out[j] = 0.0f;
    for (std::int64_t i = 0; i < spec_.entity_dim; ++i)
      for (std::int64_t j = 0; j < dim; ++j) out[j] += entity[i] * matrix[i * dim + j];
  }
  // h M + r - t M
  std::vector<float> translation(const Triple& x) const {
    const std::int64_t dim = spec_.relation_dim;
    std::vector<float> head(dim), tail(dim);
    project(x.head, x.projection, head.data());
    project(x.tail, x.projection, tail.data());
    for (std::int64_t j = 0; j < dim; ++j) head[j] += x.relation[j] - tail[j];
    return head;
  }
};

}  // namespace

std::unique_ptr<Model> make_transr(const ModelSpec& spec) { return std::make_unique<TransR>(spec); }

}  // namespace frugal
