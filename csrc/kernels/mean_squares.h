// Up to three blocks of gradients, whose mean squares go one behind the other. A row has the same bits as in an update.
#pragma once

#include <cstdint>

namespace frugal {

struct GradientRows {
  const float* values;
  std::int64_t rows, dim, stride;
};

struct GradientBlocks {
  static constexpr int kMost = 3;
  GradientRows block[kMost];
  int blocks;
};

namespace cpu {
void mean_squares(const GradientBlocks& gradients, float* means);
}

namespace cuda {
// All pointers must be valid on the device. Throws DeviceError if the launch fails.
void mean_squares(const GradientBlocks& gradients, float* means, std::uintptr_t stream);
}  // namespace cuda

}  // namespace frugal
