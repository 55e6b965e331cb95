#include "kernels/cpu/projected_pairs.h"

#include <algorithm>

#include "parallel/thread_pool.h"

namespace frugal::cpu {
namespace {

using Term = PairTerm<PairKind::kAbsolute>;

// Calls body(edge, negative, row of projected) for all pairs; a task is an edge.
template <typename Body>
void for_pairs(const ProjectedShape& s, const Body& body) {
  default_pool().parallel_for(s.groups * s.edges, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t edge = begin; edge < end; ++edge)
      for (std::int64_t n = 0; n < s.negatives; ++n)
        body(edge, n, ((edge / s.edges * s.negatives + n) * s.edges + edge % s.edges) * s.columns);
  });
}

}  // namespace

void projected_distances(const ProjectedShape& s, const float* query, const float* projected, float* distances) {
  for_pairs(s, [&](std::int64_t edge, std::int64_t n, std::int64_t row) {
    float sum = 0.0f;
    for (std::int64_t k = 0; k < s.columns; ++k) {
      const float difference = query[edge * s.columns + k] - projected[row + k];
      sum += Term::distance(&difference);
    }
    distances[edge * s.negatives + n] = sum;
  });
}

void projected_gradients(const ProjectedShape& s, const float* query, const float* weight, float* projected,
                         float* of_query) {
  std::fill_n(of_query, s.groups * s.edges * s.columns, 0.0f);
  for_pairs(s, [&](std::int64_t edge, std::int64_t n, std::int64_t row) {
    for (std::int64_t k = 0; k < s.columns; ++k) {
      const float difference = query[edge * s.columns + k] - projected[row + k];
      float pull = 0.0f;
      Term::pull(&difference, weight[edge * s.negatives + n], &pull);
      projected[row + k] = -pull;
      of_query[edge * s.columns + k] += pull;
    }
  });
}

}  // namespace frugal::cpu
