#include "kernels/cpu/entry_update.h"

#include <vector>

#include "kernels/cpu/row_ids.h"
#include "parallel/thread_pool.h"

namespace frugal {
namespace {

constexpr std::int64_t kElementsPerThread = 1 << 14;  // below this a second thread costs more than it saves

// Calls body(mine) on each thread, where mine(i) tells whether occurrence i is that thread's. A row belongs to the
// thread that its id names, so duplicates need neither sorting nor atomics.
template <typename Body>
void for_each_owner(const std::int64_t* ids, std::int64_t elements, const Body& body) {
  ThreadPool& pool = default_pool();
  if (elements < kElementsPerThread || pool.threads() == 1) return body([](std::int64_t) { return true; });
  const std::int64_t threads = pool.threads();
  pool.run([&](int worker) { body([=](std::int64_t i) { return ids[i] % threads == worker; }); });
}

}  // namespace

void accumulate_entry(HostTable& table, const std::int64_t* ids, std::int64_t count, const float* gradients,
                      float* states) {
  check_row_ids(ids, count, table.rows());
  const std::int64_t dim = table.layout().dim;
  for_each_owner(ids, count * dim, [&](const auto& mine) {
    for (std::int64_t i = 0; i < count; ++i)
      if (mine(i)) table.state(ids[i]) += mean_square(gradients + i * dim, dim);
    for (std::int64_t i = 0; i < count; ++i)
      if (mine(i)) states[i] = table.state(ids[i]);
  });
}

void move_entry(HostTable& table, const RowAdagrad& optimizer, const std::int64_t* ids, std::int64_t count,
                const float* gradients, const float* deviations) {
  check_row_ids(ids, count, table.rows());
  const std::int64_t dim = table.layout().dim;
  for_each_owner(ids, count * dim, [&](const auto& mine) {
    for (std::int64_t i = 0; i < count; ++i)
      if (mine(i)) optimizer.move(table.row(ids[i]), deviations[i], gradients + i * dim, dim);
  });
}

void apply_entry(HostTable& table, const RowAdagrad& optimizer, const std::int64_t* ids, std::int64_t count,
                 const float* gradients) {
  std::vector<float> deviations(count);
  accumulate_entry(table, ids, count, gradients, deviations.data());
  for (float& value : deviations) value = RowAdagrad::deviation(value);
  move_entry(table, optimizer, ids, count, gradients, deviations.data());
}

}  // namespace frugal
