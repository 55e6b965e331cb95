#include "kernels/cpu/entry_update.h"

#include "kernels/cpu/row_ids.h"
#include "parallel/thread_pool.h"

namespace frugal {

void apply_entry(HostTable& table, const RowAdagrad& optimizer, const std::int64_t* ids, std::int64_t count,
                 const float* gradients) {
  check_row_ids(ids, count, table.rows());
  const std::int64_t dim = table.layout().dim;
  ThreadPool& pool = default_pool();
  // A row belongs to the thread that its id names, so duplicates need neither sorting nor atomics.
  const std::int64_t threads = pool.threads();
  pool.run([&](int worker) {
    const auto mine = [&](std::int64_t i) { return ids[i] % threads == worker; };
    for (std::int64_t i = 0; i < count; ++i)
      if (mine(i)) optimizer.accumulate(table.state(ids[i]), gradients + i * dim, dim);
    for (std::int64_t i = 0; i < count; ++i)
      if (mine(i)) optimizer.apply(table.row(ids[i]), table.state(ids[i]), gradients + i * dim, dim);
  });
}

}  // namespace frugal
