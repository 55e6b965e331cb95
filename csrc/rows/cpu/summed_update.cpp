#include "rows/cpu/summed_update.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

#include "base/parallel/callers_threads.h"
#include "base/parallel/thread_pool.h"
#include "rows/cpu/host_warp.h"
#include "table/mean_square.h"

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
  default_pool()->parallel_for(writes.count, kRowsPerTask, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t u = begin; u < end; ++u)
      leave_with_sum<HostWarp, 1>(memory, writes.leave[u], writes.target[u], records + u * memory.stride,
                                  sums + u * memory.dim, rule, power, 0);
  });
}

}  // namespace frugal::cpu

namespace frugal {
namespace {

void apply_rule(const UpdateRule& rule, float* row, std::span<const float* const> gradients, const RowLayout& layout) {
  static thread_local std::vector<float> sum;  // grows once
  sum.assign(static_cast<std::size_t>(layout.dim), 0.0f);
  for (const float* gradient : gradients)
    for (std::int64_t i = 0; i < layout.dim; ++i) sum[static_cast<std::size_t>(i)] += gradient[i];
  update_from_sum<HostWarp, 1>(row, row, sum.data(), layout.dim, rule, sum_level_power(layout.dim / kSumPartials), 0);
}

}  // namespace

void SummedUpdate::next(double learning_rate, float epsilon, float largest_norm, double beta1, double beta2) {
  const auto number = static_cast<double>(++updates_);
  rule_.learning_rate = static_cast<float>(learning_rate);
  rule_.epsilon = epsilon;
  rule_.largest_norm = largest_norm;
  rule_.mean_rate = static_cast<float>(1 - beta1);
  rule_.square_rate = static_cast<float>(1 - beta2);
  rule_.corrected_rate = static_cast<float>(learning_rate / (1 - std::pow(beta1, number)));
  rule_.root_rate = static_cast<float>(1 / std::sqrt(1 - std::pow(beta2, number)));
  if (!kept_.empty()) kept_[static_cast<std::size_t>(steps_) % kept_.size()] = {steps_, rule_};
  ++steps_;
}

void SummedUpdate::apply(float* row, std::span<const float* const> gradients, const RowLayout& layout) const {
  apply_rule(rule_, row, gradients, layout);
}

void SummedUpdate::apply_in_step(std::int64_t step, float* row, std::span<const float* const> gradients,
                                 const RowLayout& layout) const {
  if (kept_.empty()) return apply(row, gradients, layout);
  const Kept& of_step = kept_[static_cast<std::size_t>(step) % kept_.size()];
  if (of_step.step != step) throw std::logic_error("the rule of a step's updates is gone before they are");
  apply_rule(of_step.rule, row, gradients, layout);
}

}  // namespace frugal
