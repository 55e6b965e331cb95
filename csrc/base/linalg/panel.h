// Panels: sixteen rows of a matrix turned on their side, element k of all sixteen next to each other.
#pragma once

#include "base/linalg/simd.h"

namespace frugal::FRUGAL_ISA {

// rows: sixteen pointers to k floats each. panel: k x 16 floats.
static inline void pack_panel(const float* const* rows, std::int64_t k, float* panel) {
  std::int64_t p = 0;
#if defined(__SSE2__)
  for (; p + 4 <= k; p += 4) {
    for (int group = 0; group < kLanes; group += 4) {
      __m128 a = _mm_loadu_ps(rows[group] + p), b = _mm_loadu_ps(rows[group + 1] + p);
      __m128 c = _mm_loadu_ps(rows[group + 2] + p), d = _mm_loadu_ps(rows[group + 3] + p);
      _MM_TRANSPOSE4_PS(a, b, c, d);
      float* out = panel + p * kLanes + group;
      _mm_storeu_ps(out, a);
      _mm_storeu_ps(out + kLanes, b);
      _mm_storeu_ps(out + 2 * kLanes, c);
      _mm_storeu_ps(out + 3 * kLanes, d);
    }
  }
#endif
  for (; p < k; ++p)
    for (int l = 0; l < kLanes; ++l) panel[p * kLanes + l] = rows[l][p];
}

}  // namespace frugal::FRUGAL_ISA
