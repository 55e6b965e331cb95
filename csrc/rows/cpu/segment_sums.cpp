#include "rows/cpu/segment_sums.h"

#include <algorithm>

#include "base/parallel/callers_threads.h"
#include "base/parallel/thread_pool.h"

namespace frugal::cpu {

void segment_sums(const EntryGradients& segments, std::int64_t rows, std::int64_t dim, float* sums,
                  bool adds) {
  run_ranges(rows, kRowsPerTask, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t u = begin; u < end; ++u) {
      float* __restrict sum = sums + u * dim;
      if (!adds) std::fill_n(sum, dim, 0.0f);
      for (std::int64_t i = segments.offset[u]; i < segments.offset[u + 1]; ++i) {
        const float* __restrict x = segments.occurrence(i);
        for (std::int64_t k = 0; k < dim; ++k) sum[k] += x[k];
      }
    }
  });
}

}  // namespace frugal::cpu
