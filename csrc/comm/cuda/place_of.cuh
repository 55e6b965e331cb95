// Where a row is among the ids that a rank has published.
#pragma once

#include <cstdint>

namespace frugal::cuda {

// The place of `id` among id_at(0) < id_at(1) < .. < id_at(rows - 1), behind which only padding ids are alike; -1 if
// it is not there.
template <typename IdAt>
__device__ int place_of(std::int32_t id, std::int64_t rows, const IdAt& id_at) {
  std::int64_t begin = 0, end = rows;
  while (begin < end) {
    const std::int64_t middle = (begin + end) / 2;
    if (id_at(middle) < id)
      begin = middle + 1;
    else
      end = middle;
  }
  return begin < rows && id_at(begin) == id ? static_cast<int>(begin) : -1;
}

}  // namespace frugal::cuda
