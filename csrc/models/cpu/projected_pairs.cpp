#include "models/cpu/projected_pairs.h"

#include <algorithm>
#include <cmath>

#include "base/parallel/thread_pool.h"

namespace frugal::cpu {
namespace {

template <typename Body>
void for_each(std::int64_t count, const Body& body) {
  default_pool()->parallel_for(count, 1, [&](std::int64_t begin, std::int64_t end) {
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
                  std::int32_t* rows, float* of_candidates) {
  const MatrixRows& m = p.m;
  const std::int64_t block = p.negatives * m.height;
  std::fill_n(of_candidates, p.chunks() * p.kStripes * block, 0.0f);
  for_each(p.chunks(), [&](std::int64_t chunk) {
    std::int32_t* const list = rows + chunk * (p.chunk_size + 1);
    list[0] = 0;
    for (std::int64_t u = 0; u < m.count; ++u)
      if (p.has_run(chunk, u)) list[++list[0]] = static_cast<std::int32_t>(u);
    for (std::int64_t stripe = 0; stripe < p.kStripes; ++stripe)
      for (std::int64_t r = list[0] * stripe / p.kStripes; r < list[0] * (stripe + 1) / p.kStripes; ++r) {
        const std::int64_t u = list[1 + r], begin = p.begin_of_run(chunk, u);
        const float *const matrix = m.matrix(u), *const from = projected + begin * p.negatives * m.width;
        float* const sums = of_candidates + (chunk * p.kStripes + stripe) * block;
        for (std::int64_t o = begin; o < p.begin_of_run(chunk + 1, u); ++o) {
          const std::int32_t edge = m.occurrence[o];
          const float *const own = query + edge * m.width, *const weight = slope + edge * p.negatives;
          for (std::int64_t n = 0; n < p.negatives; ++n)
            for (std::int64_t i = 0; i < m.height; ++i)
              for (std::int64_t j = 0; j < m.width; ++j)
                sums[n * m.height + i] +=
                    matrix[i * m.width + j] * p.by_projected(own[j], from[n * m.width + j], weight[n]);
        }
      }
  });
}

void differentiate_matrices(const ProjectedPairs& p, const float* candidates, const float* query, const float* slope,
                            const float* projected, float* of_matrices, float* of_query) {
  const MatrixRows& m = p.m;
  for_each(m.edges, [&](std::int64_t edge) {
    const std::int64_t chunk = edge / p.chunk_size;
    const std::int64_t begin = p.begin_of_run(chunk, m.slot[edge]);
    const float *const own = query + edge * m.width, *const from = projected + begin * p.negatives * m.width;
    float* const to = of_matrices + edge * m.elements();
    float* const sum = of_query + edge * m.width;
    std::fill_n(sum, m.width, 0.0f);
    std::fill_n(to, m.elements(), 0.0f);
    for (std::int64_t n = 0; n < p.negatives; ++n) {
      const float* const candidate = candidates + (chunk * p.negatives + n) * m.height;
      for (std::int64_t j = 0; j < m.width; ++j) {
        const float gradient = p.by_projected(own[j], from[n * m.width + j], slope[edge * p.negatives + n]);
        sum[j] -= gradient;
        for (std::int64_t i = 0; i < m.height; ++i) to[i * m.width + j] += candidate[i] * gradient;
      }
    }
  });
}

}  // namespace frugal::cpu
