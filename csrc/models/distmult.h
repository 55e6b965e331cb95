// DistMult (Yang et al. 2015): score = sum h r t.
#pragma once

#include "base/linalg/row.h"
#include "models/checks.h"
#include "models/columnwise.h"
#include "models/sides.h"

namespace frugal::FRUGAL_ISA {

struct DistMult : Columnwise<DistMult> {
  static constexpr std::string_view kNames[] = {"DistMult"};
  static constexpr Similarity kSimilarity = Similarity::kDot;
  static void check(const ModelSpec& spec) { require_equal_dims(spec); }

  FRUGAL_DEVICE static float raw(const ModelNumbers& model, const Triple& x, bool corrupt_head, float* query) {
    const Sides side(x, corrupt_head);
    write_query(model, x, corrupt_head, query);
    return sum_row(model.entity_dim, [&](std::int64_t i, auto read) {
      return read(side.fixed + i) * read(x.relation + i) * read(side.corrupted + i);
    });
  }
  FRUGAL_DEVICE static float finish(const ModelNumbers&, float raw, float*) { return raw; }
  FRUGAL_DEVICE static Vec query(Vec fixed, Vec relation, bool) { return fixed * relation; }
  FRUGAL_DEVICE static float factor(float, float score_gradient) { return score_gradient; }
  FRUGAL_DEVICE static SideColumns gradient(const SideColumns& x, Vec query_gradient, Vec positive, bool) {
    const Vec q = query_gradient + positive * x.corrupted;
    return {q * x.relation, q * x.fixed, positive * (x.fixed * x.relation)};
  }
};

}  // namespace frugal::FRUGAL_ISA
