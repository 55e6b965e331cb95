// Arrays of random numbers for tests of kernels.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

namespace frugal::testing {

using Floats = std::vector<float>;

// `count` of them, normally distributed.
inline Floats random_floats(std::int64_t count, std::mt19937& random) {
  std::normal_distribution<float> normal;
  Floats values(count);
  for (float& value : values) value = normal(random);
  return values;
}

}  // namespace frugal::testing
