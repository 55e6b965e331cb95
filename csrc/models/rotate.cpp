// RotatE (Sun et al. 2019): score = gamma - sum |h o e^(i phase) - t|; an entity row is real parts, then imaginary parts; a
// relation row r is phases in units of embedding_range / pi.
#include <cmath>
#include <vector>

#include "linalg/vector_math.h"
#include "models/registry.h"
#include "linalg/row.h"

namespace frugal {
namespace {

using namespace FRUGAL_ISA;

constexpr std::int64_t kBlock = 16;  // phases that are turned into sines and cosines together

// Sixteen phases at a time: rotation(first, count, cosine, sine).
template <typename Body>
void for_rotations(const float* relation, std::int64_t half, float unit, Body body) {
  for (std::int64_t i = 0; i < half; i += kBlock) {
    const int count = static_cast<int>(half - i < kBlock ? half - i : kBlock);
    float cosine[kBlock], sine[kBlock];
    const SineCosine rotation = sine_cosine(load_part(relation + i, count) / broadcast(unit));
    store(cosine, rotation.cosine);
    store(sine, rotation.sine);
    body(i, count, cosine, sine);
  }
}

// Rotating the head by the phase, or the tail by minus the phase: the fixed entity is rotated, and that is the query.
class RotatE final : public Model {
 public:
  explicit RotatE(const ModelSpec& spec)
      : Model(spec, Similarity::kModulus), unit_(spec.embedding_range / static_cast<float>(M_PI)) {}

  float forward(const Triple& x, bool corrupt_head, float* query, float*) const override {
    const std::int64_t half = spec_.entity_dim / 2;
    const float* fixed = corrupt_head ? x.tail : x.head;
    const float* corrupted = corrupt_head ? x.head : x.tail;
    const float direction = corrupt_head ? -1.0f : 1.0f;
    for_rotations(x.relation, half, unit_, [&](std::int64_t first, int count, const float* cosine, const float* sine) {
      for (int l = 0; l < count; ++l) {
        const std::int64_t i = first + l;
        const float re = fixed[i], im = fixed[half + i], s = direction * sine[l];
        query[i] = re * cosine[l] - im * s;
        query[half + i] = re * s + im * cosine[l];
      }
    });
    // A rotation keeps moduli, so the distance from the rotated tail to the head is that from the rotated head to the tail.
    return spec_.gamma - sum_row(half, [&](auto row) {
             const Vec re = row(query) - row(corrupted), im = row(query + half) - row(corrupted + half);
             return sqrt(re * re + im * im);
           });
  }
  void backward(const Triple& x, bool corrupt_head, float, float score_gradient, const float* query_gradient,
                const TripleGradient& out) const override {
    const std::int64_t half = spec_.entity_dim / 2;
    const float* fixed = corrupt_head ? x.tail : x.head;
    const float* corrupted = corrupt_head ? x.head : x.tail;
    float* __restrict fixed_gradient = corrupt_head ? out.tail : out.head;
    float* __restrict corrupted_gradient = corrupt_head ? out.head : out.tail;
    float* __restrict relation_gradient = out.relation;
    const float direction = corrupt_head ? -1.0f : 1.0f;
    for_rotations(x.relation, half, unit_, [&](std::int64_t first, int count, const float* cosine, const float* sine) {
      for (int l = 0; l < count; ++l) {
        const std::int64_t i = first + l;
        const float re = fixed[i], im = fixed[half + i], c = cosine[l], s = direction * sine[l];
        const float query_re = re * c - im * s, query_im = re * s + im * c;
        const float dx = query_re - corrupted[i], dy = query_im - corrupted[half + i];
        const float modulus = std::sqrt(dx * dx + dy * dy);
        const float factor = modulus > 0.0f ? -score_gradient / modulus : 0.0f;
        const float px = factor * dx, py = factor * dy;
        const float gx = query_gradient[i] + px, gy = query_gradient[half + i] + py;
        fixed_gradient[i] = gx * c + gy * s;
        fixed_gradient[half + i] = gy * c - gx * s;
        relation_gradient[i] = direction * (gy * query_re - gx * query_im) / unit_;
        corrupted_gradient[i] = -px;
        corrupted_gradient[half + i] = -py;
      }
    });
  }

 private:
  const float unit_;
};

}  // namespace

std::unique_ptr<Model> make_rotate(const ModelSpec& spec) {
  require(spec.entity_dim == 2 * spec.relation_dim, spec, "needs entity rows twice as long as relation rows (--double_ent)");
  require(spec.embedding_range > 0.0f, spec, "needs an embedding range above 0");
  return std::make_unique<RotatE>(spec);
}

}  // namespace frugal
