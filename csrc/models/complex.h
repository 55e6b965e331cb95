// ComplEx (Trouillon et al. 2016): score = Re sum h r conj(t); real parts in the first half of a row, imaginary in the
// second.
#pragma once

#include "base/linalg/row.h"
#include "models/checks.h"
#include "models/row_model.h"
#include "models/sides.h"

namespace frugal::FRUGAL_ISA {

// The score is Re sum f r' conj(c) with f the fixed and c the corrupted entity, and r' = r where the tail is corrupted,
// conj(r) where the head is. The query is f r'.
struct ComplEx {
  static constexpr std::string_view kNames[] = {"ComplEx"};
  static constexpr Similarity kSimilarity = Similarity::kDot;
  static void check(const ModelSpec& spec) {
    require_equal_dims(spec);
    require_even(spec);
  }

  FRUGAL_DEVICE static float raw(const ModelNumbers& model, const Triple& x, bool corrupt_head, float* query) {
    const std::int64_t half = model.entity_dim / 2;
    const Sides side(x, corrupt_head);
    const Vec conjugate = broadcast(corrupt_head ? -1.0f : 1.0f);
    for_row(half, [&](std::int64_t i, auto read, auto write) {
      const Vec a = read(side.fixed + i), b = read(side.fixed + half + i);
      const Vec re = read(x.relation + i), im = conjugate * read(x.relation + half + i);
      write(query + i, a * re - b * im);
      write(query + half + i, a * im + b * re);
    });
    return sum_row(half, [&](std::int64_t i, auto read) {
      return read(query + i) * read(side.corrupted + i) + read(query + half + i) * read(side.corrupted + half + i);
    });
  }
  FRUGAL_DEVICE static float finish(const ModelNumbers&, float raw, float*) { return raw; }
  FRUGAL_DEVICE static void backward(const ModelNumbers& model, const Triple& x, bool corrupt_head, float,
                                     float score_gradient, const float* query_gradient, const TripleGradient& out) {
    const std::int64_t half = model.entity_dim / 2;
    const Sides side(x, corrupt_head);
    const SideGradients gradient(out, corrupt_head);
    const Vec conjugate = broadcast(corrupt_head ? -1.0f : 1.0f), positive = broadcast(score_gradient);
    for_row(half, [&](std::int64_t i, auto read, auto write) {
      const Vec a = read(side.fixed + i), b = read(side.fixed + half + i);
      const Vec re = read(x.relation + i), im = conjugate * read(x.relation + half + i);
      const Vec p = read(query_gradient + i) + positive * read(side.corrupted + i);
      const Vec q = read(query_gradient + half + i) + positive * read(side.corrupted + half + i);
      write(gradient.fixed + i, p * re + q * im);
      write(gradient.fixed + half + i, q * re - p * im);
      write(gradient.relation + i, p * a + q * b);
      write(gradient.relation + half + i, conjugate * (q * a - p * b));
      write(gradient.corrupted + i, positive * (a * re - b * im));
      write(gradient.corrupted + half + i, positive * (a * im + b * re));
    });
  }
};

}  // namespace frugal::FRUGAL_ISA
