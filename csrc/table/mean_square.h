// mean(g*g) of one gradient row, summed in a fixed order.
//
// Row-wise Adagrad adds mean(g*g) to a row's state. A float32 sum depends on its order, and the trained table must not
// depend on where a row was updated, so the order is part of the format: it is the order in which PyTorch's CPU
// reduction sums a contiguous row (32 partial sums, element i into partial i mod 32, cascaded every 16 blocks so that
// rounding errors grow slowly). 32 partial sums are also one warp, so CUDA code keeps one of them per lane.
#pragma once

#include <cstdint>

namespace frugal {

inline constexpr int kSumLanes = 8;                          // partial sums that are folded last
inline constexpr int kSumUnroll = 4;                         // groups of lanes that are folded first
inline constexpr int kSumPartials = kSumLanes * kSumUnroll;  // one per lane of a warp
inline constexpr int kSumLevels = 4;                         // depth of the cascade
inline constexpr int kSumRun = 16 * kSumPartials;            // elements that are summed before the cascade carries, or
                                                             // the least of them

// log2 of the number of blocks of kSumPartials elements that are summed before the cascade carries.
inline int sum_level_power(std::int64_t blocks) {
  int log2_blocks = 0;
  while ((std::int64_t{1} << log2_blocks) < blocks) ++log2_blocks;
  const int power = log2_blocks / kSumLevels;
  return power < 4 ? 4 : power;
}

// The mean of the squares of dim >= 1 floats, of which read(i) points to the i-th and those after it up to the next
// multiple of kSumRun, for ascending i. Never allocates, never fails.
template <typename Read>
inline float mean_square_of(std::int64_t dim, Read read) {
  const auto add_squares = [](float* partial, const float* x, int count) {
    for (int k = 0; k < count; ++k) partial[k] += x[k] * x[k];
  };
  if (dim < kSumLanes) {
    // Too short for a group of lanes: the unrolled groups are single elements.
    const float* gradient = read(0);
    float partial[kSumUnroll] = {};
    const int whole = dim >= kSumUnroll ? kSumUnroll : 0;
    add_squares(partial, gradient, whole);
    for (std::int64_t i = whole; i < dim; ++i) partial[0] += gradient[i] * gradient[i];
    for (int k = 1; k < kSumUnroll; ++k) partial[0] += partial[k];
    return partial[0] / static_cast<float>(dim);
  }
  const std::int64_t groups = dim / kSumLanes;
  const std::int64_t blocks = groups / kSumUnroll;
  const int power = sum_level_power(blocks);
  const std::int64_t step = std::int64_t{1} << power;
  float level[kSumLevels][kSumPartials] = {};
  std::int64_t block = 0;
  while (block + step <= blocks) {
    float sum[kSumPartials];  // stays in registers
    for (int k = 0; k < kSumPartials; ++k) sum[k] = level[0][k];
    for (std::int64_t end = block + step; block < end; block += kSumRun / kSumPartials) {
      const float* x = read(block * kSumPartials);
      for (int j = 0; j < kSumRun; j += kSumPartials) add_squares(sum, x + j, kSumPartials);
    }
    for (int k = 0; k < kSumPartials; ++k) level[0][k] = sum[k];
    for (int l = 1; l < kSumLevels; ++l) {
      for (int k = 0; k < kSumPartials; ++k) {
        level[l][k] += level[l - 1][k];
        level[l - 1][k] = 0.0f;
      }
      if (block & ((step - 1) << (l * power))) break;
    }
  }
  for (; block < blocks; ++block) add_squares(level[0], read(block * kSumPartials), kSumPartials);
  for (int l = 1; l < kSumLevels; ++l)
    for (int k = 0; k < kSumPartials; ++k) level[0][k] += level[l][k];
  for (std::int64_t group = blocks * kSumUnroll; group < groups; ++group)
    add_squares(level[0], read(group * kSumLanes), kSumLanes);
  for (int unrolled = 1; unrolled < kSumUnroll; ++unrolled)
    for (int k = 0; k < kSumLanes; ++k) level[0][k] += level[0][unrolled * kSumLanes + k];
  float sum = 0.0f;
  for (std::int64_t i = groups * kSumLanes; i < dim; ++i) sum += *read(i) * *read(i);
  for (int k = 0; k < kSumLanes; ++k) sum += level[0][k];
  return sum / static_cast<float>(dim);
}

// gradient: dim floats.
inline float mean_square(const float* gradient, std::int64_t dim) {
  return mean_square_of(dim, [gradient](std::int64_t i) { return gradient + i; });
}

}  // namespace frugal
