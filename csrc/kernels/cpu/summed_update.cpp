#include "kernels/cpu/summed_update.h"

#include <algorithm>
#include <vector>

#include "kernels/cpu/host_warp.h"
#include "optim/mean_square.h"
#include "parallel/callers_threads.h"
#include "parallel/thread_pool.h"

namespace frugal::cpu {
namespace {

constexpr std::int64_t kWorkOfTask = 4096;      // in occurrences
constexpr std::int64_t kOccurrencesOfRow = 4;   // what a row costs besides its occurrences, in occurrences
constexpr std::int64_t kRowsAhead = 4;          // whose first lines are asked for
constexpr std::int64_t kOccurrencesAhead = 8;

// The first row of a part: parts of rows are equally much work, since few rows may have most of the occurrences.
std::int64_t first_row(const std::int32_t* offset, std::int64_t rows, std::int64_t part, std::int64_t parts) {
  const std::int64_t work = (offset[rows] + rows * kOccurrencesOfRow) * part / parts;
  std::int64_t low = 0, high = rows;
  while (low < high) {
    const std::int64_t middle = (low + high) / 2;
    if (offset[middle] + middle * kOccurrencesOfRow < work)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

void add_occurrences(const EntryGradients& gradients, std::int64_t u, std::int64_t last, std::int64_t dim,
                     float* __restrict sum) {
  std::fill_n(sum, dim, 0.0f);
  for (std::int64_t i = gradients.offset[u]; i < gradients.offset[u + 1]; ++i) {
    if (i + kOccurrencesAhead < last) __builtin_prefetch(gradients.occurrence(i + kOccurrencesAhead));
    const float* __restrict x = gradients.occurrence(i);
    for (std::int64_t k = 0; k < dim; ++k) sum[k] += x[k];
  }
}

}  // namespace

void update_from_gradients(const RowPointers& rows, const EntryGradients& gradients, const UpdateRule& rule) {
  const std::int64_t dim = rows.dim, last = rows.count == 0 ? 0 : gradients.offset[rows.count];
  const int power = sum_level_power(dim / kSumPartials);
  const auto update = [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> sum(static_cast<std::size_t>(dim));
    for (std::int64_t u = begin; u < end; ++u) {
      if (u + kRowsAhead < end)
        for (std::int64_t k = 0; k < dim; k += 16) __builtin_prefetch(rows.source[u + kRowsAhead] + k);
      add_occurrences(gradients, u, last, dim, sum.data());
      if (rows.destination[u] == nullptr)
        std::copy_n(sum.data(), dim, rows.gradient[u]);
      else
        update_from_sum<HostWarp, 1>(rows.destination[u], rows.source[u], sum.data(), dim, rule, power, 0);
    }
  };
  const std::int64_t parts = std::max<std::int64_t>(1, (last + rows.count * kOccurrencesOfRow) / kWorkOfTask);
  run_tasks(parts, [&](std::int64_t part) {
    update(first_row(gradients.offset, rows.count, part, parts),
           part + 1 == parts ? rows.count : first_row(gradients.offset, rows.count, part + 1, parts));
  });
}

void update_from_sums(const RowMemory& memory, const RowWrites& writes, const float* records, const float* sums,
                      const UpdateRule& rule) {
  const int power = sum_level_power(memory.dim / kSumPartials);
  default_pool().parallel_for(writes.count, kRowsPerTask, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t u = begin; u < end; ++u)
      leave_with_sum<HostWarp, 1>(memory, writes.leave[u], writes.target[u], records + u * memory.stride,
                                  sums + u * memory.dim, rule, power, 0);
  });
}

}  // namespace frugal::cpu
