#include "kernels/mean_squares.h"

#include "optim/mean_square.h"
#include "parallel/thread_pool.h"

namespace frugal::cpu {

void mean_squares(const GradientBlocks& gradients, float* means) {
  constexpr std::int64_t kRowsPerTask = 64;  // below this a second thread costs more than it saves
  for (int b = 0; b < gradients.blocks; ++b) {
    const GradientRows& x = gradients.block[b];
    default_pool().parallel_for(x.rows, kRowsPerTask, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) means[i] = mean_square(x.values + i * x.stride, x.dim);
    });
    means += x.rows;
  }
}

}  // namespace frugal::cpu
