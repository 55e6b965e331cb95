#include "rows/cpu/entry_update.h"

#include <vector>

#include "base/parallel/thread_pool.h"

namespace frugal {
namespace {

constexpr std::int64_t kElementsPerThread = 1 << 14;  // below this a second thread costs more than it saves

// Calls body(mine) on each thread, where mine(i) tells whether occurrence i is that thread's. A record belongs to the
// thread that its address names, so duplicates need neither sorting nor atomics.
template <typename Body>
void for_each_owner(float* const* records, std::int64_t elements, const Body& body) {
  const std::shared_ptr<ThreadPool> pool = default_pool();
  if (elements < kElementsPerThread || pool->threads() == 1)
    return body([=](std::int64_t i) { return records[i] != nullptr; });
  const auto threads = static_cast<std::uint64_t>(pool->threads());
  pool->run([&](int worker) {
    body([=](std::int64_t i) {
      // Records are whole lines apart; the multiplication spreads strides that share factors with the thread count.
      const std::uint64_t line = reinterpret_cast<std::uintptr_t>(records[i]) / 128;
      return records[i] != nullptr &&
             (line * 0x9E3779B97F4A7C15ull >> 32) % threads == static_cast<std::uint64_t>(worker);
    });
  });
}

}  // namespace

void accumulate_entry(float* const* records, std::int64_t count, std::int64_t dim, const float* gradients,
                      float* states) {
  for_each_owner(records, count * dim, [&](const auto& mine) {
    for (std::int64_t i = 0; i < count; ++i)
      if (mine(i)) records[i][dim] += mean_square(gradients + i * dim, dim);
    for (std::int64_t i = 0; i < count; ++i)
      if (mine(i)) states[i] = records[i][dim];
  });
}

void move_entry(const RowAdagrad& optimizer, float* const* records, std::int64_t count, std::int64_t dim,
                const float* gradients, const float* deviations) {
  for_each_owner(records, count * dim, [&](const auto& mine) {
    for (std::int64_t i = 0; i < count; ++i)
      if (mine(i)) optimizer.move(records[i], deviations[i], gradients + i * dim, dim);
  });
}

void apply_entry(const RowAdagrad& optimizer, float* const* records, std::int64_t count, std::int64_t dim,
                 const float* gradients) {
  std::vector<float> deviations(count);
  accumulate_entry(records, count, dim, gradients, deviations.data());
  for (float& value : deviations) value = RowAdagrad::deviation(value);
  move_entry(optimizer, records, count, dim, gradients, deviations.data());
}

}  // namespace frugal
