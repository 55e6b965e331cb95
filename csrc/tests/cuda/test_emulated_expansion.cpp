// Rows of the ids of a lookup: the kernel, run on a CPU, and its reference, against a plain loop.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "rows/cpu/plan_kernels.h"
#include "rows/cuda/plan_kernels.h"

namespace frugal::emulated_expansion {
namespace {

TEST(EmulatedExpansion, GivesEachIdItsRow) {
  constexpr std::int64_t kRows = 9, kIds = 70;
  std::mt19937 random(1);
  for (const std::int64_t dim : {1, 3, 4, 31, 32, 36, 200}) {
    const std::int64_t stride = (dim + 1 + 31) / 32 * 32;
    std::vector<float> records(static_cast<std::size_t>(kRows * stride));
    for (float& value : records) value = static_cast<float>(random() % 1000);
    std::vector<std::int32_t> inverse(kIds);
    for (std::int32_t& u : inverse) u = static_cast<std::int32_t>(random() % (kRows + 1));  // kRows: no row
    const RowExpansion expansion{records.data(), stride, dim, kRows, inverse.data(), kIds};
    std::vector<float> expected(static_cast<std::size_t>(kIds * dim)), on_device(expected), on_host(expected);
    for (std::int64_t i = 0; i < kIds; ++i)
      for (std::int64_t k = 0; k < dim; ++k)
        expected[static_cast<std::size_t>(i * dim + k)] =
            inverse[static_cast<std::size_t>(i)] == kRows
                ? 0.0f
                : records[static_cast<std::size_t>(inverse[static_cast<std::size_t>(i)] * stride + k)];
    cuda::expand(expansion, on_device.data(), {});
    cpu::expand(expansion, on_host.data());
    EXPECT_EQ(on_device, expected) << dim;
    EXPECT_EQ(on_host, expected) << dim;
  }
}

}  // namespace
}  // namespace frugal::emulated_expansion
