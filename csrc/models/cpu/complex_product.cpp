#include "models/cpu/complex_product.h"

#include "base/parallel/callers_threads.h"
#include "base/parallel/thread_pool.h"

namespace frugal::cpu {

void multiply_complex(const ComplexProduct& product) {
  const ComplexProduct p = product;
  run_ranges(p.rows, kRowsPerTask, [&p](std::int64_t begin, std::int64_t end) {
    const float sign = p.conjugate ? -1.0f : 1.0f;
    for (std::int64_t i = begin; i < end; ++i) {
      const float *const x = p.x + i * p.x_stride, *const y = p.y + i * p.y_stride;
      float* const out = p.out + i * p.out_stride;
#pragma GCC ivdep
      for (std::int64_t k = 0; k < p.numbers; ++k) multiply_number(x, y, out, k, p.numbers, sign);
    }
  });
}

}  // namespace frugal::cpu
