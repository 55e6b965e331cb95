// RotatE (Sun et al. 2019): score = gamma - sum |h o e^(i phase) - t|; an entity row is real parts, then imaginary
// parts; a relation row is phases, embedding_range meaning pi.
#pragma once

#include "base/linalg/row.h"
#include "base/linalg/vector_math.h"
#include "models/checks.h"
#include "models/row_model.h"
#include "models/sides.h"

namespace frugal::FRUGAL_ISA {

// Rotating the head by the phase, or the tail by minus the phase: the fixed entity is rotated, and that is the query. A
// rotation keeps moduli, so the distance of the rotated tail from the head is that of the rotated head from the tail.
struct RotatE {
  static constexpr std::string_view kNames[] = {"RotatE"};
  static constexpr Similarity kSimilarity = Similarity::kModulus;
  static void check(const ModelSpec& spec) {
    require(spec.entity_dim == 2 * spec.relation_dim, spec,
            "needs entity rows twice as long as relation rows (--double_ent)");
    require(spec.embedding_range > 0.0f, spec, "needs an embedding range above 0");
  }

  FRUGAL_DEVICE static float raw(const ModelNumbers& model, const Triple& x, bool corrupt_head, float* query) {
    const std::int64_t half = model.relation_dim;
    const Sides side(x, corrupt_head);
    const Vec direction = broadcast(corrupt_head ? -1.0f : 1.0f), unit = broadcast(model.phase_unit);
    for_row(half, [&](std::int64_t i, auto read, auto write) {
      const SineCosine rotation = sine_cosine(read(x.relation + i) / unit);
      const Vec re = read(side.fixed + i), im = read(side.fixed + half + i), s = direction * rotation.sine;
      write(query + i, re * rotation.cosine - im * s);
      write(query + half + i, re * s + im * rotation.cosine);
    });
    return sum_row(half, [&](std::int64_t i, auto read) {
      const Vec dx = read(query + i) - read(side.corrupted + i);
      const Vec dy = read(query + half + i) - read(side.corrupted + half + i);
      return sqrt(dx * dx + dy * dy);
    });
  }
  FRUGAL_DEVICE static float finish(const ModelNumbers& model, float raw, float*) { return model.gamma - raw; }
  FRUGAL_DEVICE static void backward(const ModelNumbers& model, const Triple& x, bool corrupt_head, float,
                                     float score_gradient, const float* query_gradient, const TripleGradient& out) {
    const std::int64_t half = model.relation_dim;
    const Sides side(x, corrupt_head);
    const SideGradients gradient(out, corrupt_head);
    const Vec direction = broadcast(corrupt_head ? -1.0f : 1.0f), unit = broadcast(model.phase_unit);
    const Vec zero = broadcast(0.0f), positive = broadcast(-score_gradient);
    for_row(half, [&](std::int64_t i, auto read, auto write) {
      const SineCosine rotation = sine_cosine(read(x.relation + i) / unit);
      const Vec re = read(side.fixed + i), im = read(side.fixed + half + i);
      const Vec c = rotation.cosine, s = direction * rotation.sine;
      const Vec query_re = re * c - im * s, query_im = re * s + im * c;
      const Vec dx = query_re - read(side.corrupted + i), dy = query_im - read(side.corrupted + half + i);
      const Vec modulus = sqrt(dx * dx + dy * dy);
      const Vec factor = select(zero < modulus, positive / modulus, zero);
      const Vec px = factor * dx, py = factor * dy;
      const Vec gx = read(query_gradient + i) + px, gy = read(query_gradient + half + i) + py;
      write(gradient.fixed + i, gx * c + gy * s);
      write(gradient.fixed + half + i, gy * c - gx * s);
      write(gradient.relation + i, direction * (gy * query_re - gx * query_im) / unit);
      write(gradient.corrupted + i, zero - px);
      write(gradient.corrupted + half + i, zero - py);
    });
  }
};

}  // namespace frugal::FRUGAL_ISA
