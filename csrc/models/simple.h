// SimplE (Kazemi and Poole 2018): each entity has a head and a tail half, each relation a forward and an inverse half;
// score = 1/2 sum (head_h r tail_t + head_t r' tail_h), clamped to [-20, 20].
#pragma once

#include "base/linalg/row.h"
#include "models/checks.h"
#include "models/row_model.h"
#include "models/sides.h"
#include "models/similarity/scores.h"

namespace frugal::FRUGAL_ISA {

// With f the fixed and c the corrupted entity the score is 1/2 sum (c_1 p f_2 + c_2 q f_1): the head corrupted, p = r
// and q = r'; the tail corrupted, the other way round. The query is 1/2 (p f_2, q f_1).
struct SimplE {
  static constexpr std::string_view kNames[] = {"SimplE"};
  static constexpr Similarity kSimilarity = Similarity::kClampedDot;
  static void check(const ModelSpec& spec) {
    require_equal_dims(spec);
    require_even(spec);
  }

  FRUGAL_DEVICE static float raw(const ModelNumbers& model, const Triple& x, bool corrupt_head, float* query) {
    const std::int64_t half = model.entity_dim / 2, p_at = corrupt_head ? 0 : half, q_at = half - p_at;
    const Sides side(x, corrupt_head);
    const Vec one_half = broadcast(0.5f);
    for_row(half, [&](std::int64_t i, auto read, auto write) {
      write(query + i, one_half * (read(x.relation + p_at + i) * read(side.fixed + half + i)));
      write(query + half + i, one_half * (read(x.relation + q_at + i) * read(side.fixed + i)));
    });
    return sum_row(half, [&](std::int64_t i, auto read) {
      return read(query + i) * read(side.corrupted + i) + read(query + half + i) * read(side.corrupted + half + i);
    });
  }
  // *saved: the slope of the clamp, 1 or 0.
  FRUGAL_DEVICE static float finish(const ModelNumbers&, float raw, float* saved) {
    *saved = raw < -kClamp || raw > kClamp ? 0.0f : 1.0f;
    return raw < -kClamp ? -kClamp : raw > kClamp ? kClamp : raw;
  }
  FRUGAL_DEVICE static void backward(const ModelNumbers& model, const Triple& x, bool corrupt_head, float slope,
                                     float score_gradient, const float* query_gradient, const TripleGradient& out) {
    const std::int64_t half = model.entity_dim / 2, p_at = corrupt_head ? 0 : half, q_at = half - p_at;
    const Sides side(x, corrupt_head);
    const SideGradients gradient(out, corrupt_head);
    const Vec one_half = broadcast(0.5f), positive = broadcast(slope * score_gradient);
    for_row(half, [&](std::int64_t i, auto read, auto write) {
      const Vec p = read(x.relation + p_at + i), q = read(x.relation + q_at + i);
      const Vec f1 = read(side.fixed + i), f2 = read(side.fixed + half + i);
      const Vec first = one_half * (read(query_gradient + i) + positive * read(side.corrupted + i));
      const Vec second = one_half * (read(query_gradient + half + i) + positive * read(side.corrupted + half + i));
      write(gradient.fixed + half + i, first * p);
      write(gradient.fixed + i, second * q);
      write(gradient.relation + p_at + i, first * f2);
      write(gradient.relation + q_at + i, second * f1);
      write(gradient.corrupted + i, positive * (one_half * (p * f2)));
      write(gradient.corrupted + half + i, positive * (one_half * (q * f1)));
    });
  }
};

}  // namespace frugal::FRUGAL_ISA
