// TransE (Bordes et al. 2013): score = gamma - |h + r - t|, Euclidean (l2) or sum of absolute values (l1).
#pragma once

#include "linalg/row.h"
#include "models/checks.h"
#include "models/row_model.h"

namespace frugal::FRUGAL_ISA {

struct TransE {
  static void check(const ModelSpec& spec) { require_equal_dims(spec); }

  FRUGAL_DEVICE static void translate(const ModelNumbers& model, const Triple& x, bool corrupt_head, float* query) {
    for_row(model.entity_dim, [&](std::int64_t i, auto read, auto write) {
      const Vec relation = read(x.relation + i);
      write(query + i, corrupt_head ? read(x.tail + i) - relation : read(x.head + i) + relation);
    });
  }
  // Hands the gradients on: p, that of h + r - t of the positive, is positive(h + r - t), elementwise.
  template <typename Positive>
  FRUGAL_DEVICE static void spread(const ModelNumbers& model, const Triple& x, bool corrupt_head,
                                   const float* query_gradient, const TripleGradient& out, Positive positive) {
    for_row(model.entity_dim, [&](std::int64_t i, auto read, auto write) {
      const Vec p = positive(read(x.head + i) + read(x.relation + i) - read(x.tail + i)), q = read(query_gradient + i);
      write(out.head + i, corrupt_head ? p : p + q);
      write(out.relation + i, corrupt_head ? p - q : p + q);
      write(out.tail + i, corrupt_head ? q - p : broadcast(0.0f) - p);
    });
  }
};

struct TransEL2 : TransE {
  static constexpr std::string_view kNames[] = {"TransE_l2", "TransE"};
  static constexpr Similarity kSimilarity = Similarity::kL2;

  FRUGAL_DEVICE static float raw(const ModelNumbers& model, const Triple& x, bool corrupt_head, float* query) {
    translate(model, x, corrupt_head, query);
    return sum_row(model.entity_dim, [&](std::int64_t i, auto read) {
      const Vec difference = read(x.head + i) + read(x.relation + i) - read(x.tail + i);
      return difference * difference;
    });
  }
  // *memo: the positive's distance.
  FRUGAL_DEVICE static float finish(const ModelNumbers& model, float raw, float* memo) {
    *memo = __builtin_sqrtf(raw);
    return model.gamma - *memo;
  }
  FRUGAL_DEVICE static void backward(const ModelNumbers& model, const Triple& x, bool corrupt_head, float norm,
                                     float score_gradient, const float* query_gradient, const TripleGradient& out) {
    const Vec factor = broadcast(norm > 0.0f ? -score_gradient / norm : 0.0f);
    spread(model, x, corrupt_head, query_gradient, out, [&](Vec difference) { return factor * difference; });
  }
};

struct TransEL1 : TransE {
  static constexpr std::string_view kNames[] = {"TransE_l1"};
  static constexpr Similarity kSimilarity = Similarity::kL1;

  FRUGAL_DEVICE static float raw(const ModelNumbers& model, const Triple& x, bool corrupt_head, float* query) {
    translate(model, x, corrupt_head, query);
    return sum_row(model.entity_dim, [&](std::int64_t i, auto read) {
      return abs(read(x.head + i) + read(x.relation + i) - read(x.tail + i));
    });
  }
  FRUGAL_DEVICE static float finish(const ModelNumbers& model, float raw, float*) { return model.gamma - raw; }
  FRUGAL_DEVICE static void backward(const ModelNumbers& model, const Triple& x, bool corrupt_head, float,
                                     float score_gradient, const float* query_gradient, const TripleGradient& out) {
    const Vec factor = broadcast(-score_gradient);
    spread(model, x, corrupt_head, query_gradient, out, [&](Vec difference) { return sign(difference) * factor; });
  }
};

}  // namespace frugal::FRUGAL_ISA
