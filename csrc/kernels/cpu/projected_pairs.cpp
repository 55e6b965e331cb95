#include "kernels/cpu/projected_pairs.h"

#include <algorithm>
#include <cmath>

#include "parallel/thread_pool.h"

namespace frugal::cpu {
namespace {

template <typename Body>
void for_each(std::int64_t count, const Body& body) {
  default_pool().parallel_for(count, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) body(i);
  });
}

}  // namespace

void project(const ProjectedPairs& p, const float* candidates, const float* query, float* projected, float* distances) {
  const MatrixRows& m = p.m;
  for_each(m.edges, [&](std::int64_t o) {
    if (!p.begins(o)) return;
    const float* const matrix = m.matrix(m.slot[m.occurrence[o]]);
    for (std::int64_t n = 0; n < p.negatives; ++n) {
      const float* const from = candidates + (p.chunk(o) * p.negatives + n) * m.height;
      float* const to = projected + (o * p.negatives + n) * m.width;
      std::fill_n(to, m.width, 0.0f);
      for (std::int64_t i = 0; i < m.height; ++i)
        for (std::int64_t j = 0; j < m.width; ++j) to[j] += from[i] * matrix[i * m.width + j];
      for (std::int64_t other = o; other < p.end_of_run(o); ++other) {
        const float* const own = query + m.occurrence[other] * m.width;
        float sum = 0.0f;
        for (std::int64_t j = 0; j < m.width; ++j) sum += std::fabs(own[j] - to[j]);
        distances[m.occurrence[other] * p.negatives + n] = sum;
      }
    }
  });
}

void project_back(const ProjectedPairs& p, const float* query, const float* slope, const float* projected,
                  float* of_candidates) {
  const MatrixRows& m = p.m;
  const std::int64_t block = p.negatives * m.height;
  std::fill_n(of_candidates, p.chunks() * p.stripes() * block, 0.0f);
  for_each(p.stripes(), [&](std::int64_t stripe) {
    const std::int64_t first = stripe * p.kStripe, last = std::min(first + p.kStripe, m.edges);
    for (std::int64_t o = first; o < last; ++o) {
      const std::int32_t edge = m.occurrence[o];
      const float *const matrix = m.matrix(m.slot[edge]), *const own = query + edge * m.width;
      const float* const from = projected + p.begin_of_run(p.chunk(o), m.slot[edge]) * p.negatives * m.width;
      float* const sums = of_candidates + (p.chunk(o) * p.stripes() + stripe) * block;
      for (std::int64_t n = 0; n < p.negatives; ++n)
        for (std::int64_t i = 0; i < m.height; ++i)
          for (std::int64_t j = 0; j < m.width; ++j)
            sums[n * m.height + i] +=
                matrix[i * m.width + j] * p.by_projected(own[j], from[n * m.width + j], slope[edge * p.negatives + n]);
    }
  });
}

void differentiate_matrices(const ProjectedPairs& p, const float* candidates, const float* query, const float* slope,
                            const float* projected, float* of_matrices, float* of_query) {
  const MatrixRows& m = p.m;
  for_each(m.edges, [&](std::int64_t edge) {
    const std::int64_t chunk = edge / p.chunk_size, down = p.chunk_size * m.width;
    const std::int64_t begin = p.begin_of_run(static_cast<std::int32_t>(chunk), m.slot[edge]);
    const float *const own = query + edge * m.width, *const from = projected + begin * p.negatives * m.width;
    float* const to = of_matrices + chunk * m.height * down + edge % p.chunk_size * m.width;
    float* const sum = of_query + edge * m.width;
    std::fill_n(sum, m.width, 0.0f);
    for (std::int64_t i = 0; i < m.height; ++i) std::fill_n(to + i * down, m.width, 0.0f);
    for (std::int64_t n = 0; n < p.negatives; ++n) {
      const float* const candidate = candidates + (chunk * p.negatives + n) * m.height;
      for (std::int64_t j = 0; j < m.width; ++j) {
        const float gradient = p.by_projected(own[j], from[n * m.width + j], slope[edge * p.negatives + n]);
        sum[j] -= gradient;
        for (std::int64_t i = 0; i < m.height; ++i) to[i * down + j] += candidate[i] * gradient;
      }
    }
  });
}

}  // namespace frugal::cpu
