#include "store/step_rows.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "base/parallel/thread_pool.h"

namespace frugal {

void copy_to_destination(const StepRows& rows) {
  const auto source = rows.source();
  const auto destination = rows.destination();
  default_pool()->parallel_for(static_cast<std::int64_t>(source.size()), 64, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t u = begin; u < end; ++u)
      if (destination[u] != nullptr && source[u] != destination[u])
        std::copy_n(source[u], rows.layout().record_floats(), destination[u]);
  });
}

namespace {

// The place of a row among those of the running step.
std::int64_t place_of(std::span<const std::int64_t> known, std::int64_t id) {
  const auto found = std::lower_bound(known.begin(), known.end(), id);
  if (found == known.end() || *found != id)
    throw std::out_of_range("row " + std::to_string(id) + " was not announced for this step");
  return found - known.begin();
}

}  // namespace

EntryTargets find_targets(const StepRows& rows, const std::int64_t* ids, std::int64_t count,
                          std::span<std::int64_t> sent) {
  const auto known = rows.rows();
  const auto destination = rows.destination();
  const auto gradient = rows.gradient();
  EntryTargets targets{std::vector<float*>(count), std::vector<float*>(count)};
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t u = place_of(known, ids[i]);
    if (gradient.empty() || gradient[u] == nullptr)
      targets.record[i] = destination[u];
    else
      targets.gradient[i] = gradient[u] + sent[u]++ * rows.layout().stride;
  }
  return targets;
}

std::vector<float*> find_records(const StepRows& rows, std::span<float* const> from, const std::int64_t* ids,
                                 std::int64_t count) {
  const auto known = rows.rows();
  std::vector<float*> records(count);
  for (std::int64_t i = 0; i < count; ++i) {
    records[i] = from[place_of(known, ids[i])];
    if (records[i] == nullptr)
      throw std::logic_error("row " + std::to_string(ids[i]) + " leaves as gradients, it cannot be updated here");
  }
  return records;
}

}  // namespace frugal
