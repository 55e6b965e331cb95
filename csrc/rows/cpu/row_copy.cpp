#include "rows/cpu/row_copy.h"

#include <algorithm>

#include "base/parallel/thread_pool.h"

namespace frugal {

void gather_rows(float* const* records, std::int64_t count, std::int64_t dim, float* out) {
  default_pool()->parallel_for(count, kRowsPerTask, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) std::copy_n(records[i], dim, out + i * dim);
  });
}

}  // namespace frugal
