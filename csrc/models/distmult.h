// DistMult (Yang et al. 2015): score = sum h r t.
#pragma once

#include "linalg/row.h"
#include "models/checks.h"
#include "models/row_model.h"
#include "models/sides.h"

namespace frugal::FRUGAL_ISA {

struct DistMult {
  static constexpr std::string_view kNames[] = {"DistMult"};
  static constexpr Similarity kSimilarity = Similarity::kDot;
  static void check(const ModelSpec& spec) { require_equal_dims(spec); }

  FRUGAL_DEVICE static float raw(const ModelNumbers& model, const Triple& x, bool corrupt_head, float* query) {
    const Sides side(x, corrupt_head);
    for_row(model.entity_dim, [&](std::int64_t i, auto read, auto write) {
      write(query + i, read(side.fixed + i) * read(x.relation + i));
    });
    return sum_row(model.entity_dim, [&](std::int64_t i, auto read) {
      return read(side.fixed + i) * read(x.relation + i) * read(side.corrupted + i);
    });
  }
  FRUGAL_DEVICE static float finish(const ModelNumbers&, float raw, float*) { return raw; }
  FRUGAL_DEVICE static void backward(const ModelNumbers& model, const Triple& x, bool corrupt_head, float,
                                     float score_gradient, const float* query_gradient, const TripleGradient& out) {
    const Sides side(x, corrupt_head);
    const SideGradients gradient(out, corrupt_head);
    const Vec positive = broadcast(score_gradient);
    for_row(model.entity_dim, [&](std::int64_t i, auto read, auto write) {
      const Vec fixed = read(side.fixed + i), relation = read(x.relation + i);
      const Vec q = read(query_gradient + i) + positive * read(side.corrupted + i);
      write(gradient.fixed + i, q * relation);
      write(gradient.relation + i, q * fixed);
      write(gradient.corrupted + i, positive * (fixed * relation));
    });
  }
};

}  // namespace frugal::FRUGAL_ISA
