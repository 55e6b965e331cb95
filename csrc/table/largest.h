// The largest number of a table, by which a training that has diverged is found.
#pragma once

#include <cstdint>

namespace frugal {

// The largest |x| of `count` rows of `dim` floats, which lie `stride` floats apart; NaN if one of them is. 0 of none.
float largest_magnitude(const float* rows, std::int64_t count, std::int64_t dim, std::int64_t stride);

}  // namespace frugal
