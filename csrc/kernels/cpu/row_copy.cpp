#include "kernels/cpu/row_copy.h"

#include <algorithm>

#include "kernels/cpu/row_ids.h"
#include "parallel/thread_pool.h"

namespace frugal {
namespace {
constexpr std::int64_t kRowsPerTask = 64;  // below this a second thread costs more than it saves
}

void gather_rows(HostTable& table, const std::int64_t* ids, std::int64_t count, float* out) {
  check_row_ids(ids, count, table.rows());
  const std::int64_t dim = table.layout().dim;
  default_pool().parallel_for(count, kRowsPerTask, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) std::copy_n(table.row(ids[i]), dim, out + i * dim);
  });
}

}  // namespace frugal
