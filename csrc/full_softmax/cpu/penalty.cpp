#include "full_softmax/cpu/penalty.h"

#include "base/parallel/thread_pool.h"

namespace frugal::cpu {

void penalize_rows(const RowPenalty& penalty) {
  const RowPenalty p = penalty;
  default_pool()->parallel_for(p.count, kRowsPerTask, [&p](std::int64_t begin, std::int64_t end) {
    for (std::int64_t u = begin; u < end; ++u) {
      const float factor = p.share * static_cast<float>(p.times[u]);
      double sum = 0.0;
      for (std::int64_t k = 0; k < numbers_of(p); ++k)
        sum += penalize_number(p, p.rows + u * p.dim, p.slopes + u * p.dim, k, factor);
      p.amounts[u] = p.times[u] * sum;
    }
  });
}

}  // namespace frugal::cpu
