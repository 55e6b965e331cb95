// The largest number of a table against a loop over it.
#include "table/largest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace frugal {
namespace {

TEST(Largest, IsThatOfALoopForRowsThatLieApart) {
  std::mt19937 random(1);
  std::normal_distribution<float> number;
  for (const std::int64_t dim : {1, 3, 400})
    for (const std::int64_t count : {1, 7, 5000}) {
      const std::int64_t stride = dim + 5;
      std::vector<float> rows(static_cast<std::size_t>(count * stride), 1e9f);  // what lies between them does not count
      float wanted = 0;
      for (std::int64_t row = 0; row < count; ++row)
        for (std::int64_t i = 0; i < dim; ++i) {
          float& here = rows[static_cast<std::size_t>(row * stride + i)];
          here = number(random);
          wanted = std::max(wanted, std::abs(here));
        }
      EXPECT_EQ(largest_magnitude(rows.data(), count, dim, stride), wanted) << dim << " " << count;
      float& last = rows[static_cast<std::size_t>((count - 1) * stride + dim - 1)];
      last = -std::numeric_limits<float>::infinity();
      EXPECT_EQ(largest_magnitude(rows.data(), count, dim, stride), -last);
      for (const float sign : {1.0f, -1.0f}) {  // NaN is found whatever its sign, and next to infinity
        rows[0] = std::copysign(std::numeric_limits<float>::quiet_NaN(), sign);
        EXPECT_TRUE(std::isnan(largest_magnitude(rows.data(), count, dim, stride)));
      }
    }
  EXPECT_EQ(largest_magnitude(nullptr, 0, 3, 3), 0.0f);
}

}  // namespace
}  // namespace frugal
