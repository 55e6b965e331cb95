#include "store/step_rows.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "parallel/thread_pool.h"

namespace frugal {

void copy_to_destination(const StepRows& rows) {
  const auto source = rows.source();
  const auto destination = rows.destination();
  default_pool().parallel_for(static_cast<std::int64_t>(source.size()), 64, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t u = begin; u < end; ++u)
      if (destination[u] != nullptr && source[u] != destination[u])
        std::copy_n(source[u], rows.layout().record_floats(), destination[u]);
  });
}

std::vector<float*> find_records(const StepRows& rows, std::span<float* const> from, const std::int64_t* ids,
                                 std::int64_t count) {
  const auto known = rows.rows();
  std::vector<float*> records(count);
  for (std::int64_t i = 0; i < count; ++i) {
    const auto found = std::lower_bound(known.begin(), known.end(), ids[i]);
    if (found == known.end() || *found != ids[i])
      throw std::out_of_range("row " + std::to_string(ids[i]) + " was not announced for this step");
    records[i] = from[found - known.begin()];
    if (records[i] == nullptr)
      throw std::logic_error("row " + std::to_string(ids[i]) + " leaves as gradients, it cannot be updated here");
  }
  return records;
}

}  // namespace frugal
