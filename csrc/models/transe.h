// TransE (Bordes et al. 2013): score = gamma - |h + r - t|, Euclidean (l2) or sum of absolute values (l1).
#pragma once

#include "base/linalg/row.h"
#include "models/checks.h"
#include "models/columnwise.h"

namespace frugal::FRUGAL_ISA {

struct TransE {
  static void check(const ModelSpec& spec) { require_equal_dims(spec); }

  FRUGAL_DEVICE static Vec query(Vec fixed, Vec relation, bool corrupt_head) {
    return corrupt_head ? fixed - relation : fixed + relation;
  }
  // Hands the gradients on: that of h + r - t of the positive is positive(h + r - t).
  template <typename Positive>
  FRUGAL_DEVICE static SideColumns expand_to_row(const SideColumns& x, Vec q, bool corrupt_head, Positive positive) {
    if (corrupt_head) {
      const Vec p = positive(x.corrupted + x.relation - x.fixed);
      return {q - p, p - q, p};
    }
    const Vec p = positive(x.fixed + x.relation - x.corrupted);
    return {p + q, p + q, broadcast(0.0f) - p};
  }
};

struct TransEL2 : TransE, Columnwise<TransEL2> {
  static constexpr std::string_view kNames[] = {"TransE_l2", "TransE"};
  static constexpr Similarity kSimilarity = Similarity::kL2;

  FRUGAL_DEVICE static float raw(const ModelNumbers& model, const Triple& x, bool corrupt_head, float* query) {
    write_query(model, x, corrupt_head, query);
    return sum_row(model.entity_dim, [&](std::int64_t i, auto read) {
      const Vec difference = read(x.head + i) + read(x.relation + i) - read(x.tail + i);
      return difference * difference;
    });
  }
  // *saved: the positive's distance.
  FRUGAL_DEVICE static float finish(const ModelNumbers& model, float raw, float* saved) {
    *saved = __builtin_sqrtf(raw);
    return model.gamma - *saved;
  }
  FRUGAL_DEVICE static float factor(float norm, float score_gradient) {
    return norm > 0.0f ? -score_gradient / norm : 0.0f;
  }
  FRUGAL_DEVICE static SideColumns gradient(const SideColumns& x, Vec q, Vec factor, bool corrupt_head) {
    return expand_to_row(x, q, corrupt_head, [&](Vec difference) { return factor * difference; });
  }
};

struct TransEL1 : TransE, Columnwise<TransEL1> {
  static constexpr std::string_view kNames[] = {"TransE_l1"};
  static constexpr Similarity kSimilarity = Similarity::kL1;

  FRUGAL_DEVICE static float raw(const ModelNumbers& model, const Triple& x, bool corrupt_head, float* query) {
    write_query(model, x, corrupt_head, query);
    return sum_row(model.entity_dim, [&](std::int64_t i, auto read) {
      return abs(read(x.head + i) + read(x.relation + i) - read(x.tail + i));
    });
  }
  FRUGAL_DEVICE static float finish(const ModelNumbers& model, float raw, float*) { return model.gamma - raw; }
  FRUGAL_DEVICE static float factor(float, float score_gradient) { return -score_gradient; }
  FRUGAL_DEVICE static SideColumns gradient(const SideColumns& x, Vec q, Vec factor, bool corrupt_head) {
    return expand_to_row(x, q, corrupt_head, [&](Vec difference) { return sign(difference) * factor; });
  }
};

}  // namespace frugal::FRUGAL_ISA
