#if defined(__AVX__)
constexpr int kWidth = 8;
#else
constexpr int kWidth = 4;
#endif
constexpr int kStripQueries = 6;
#include "ranking/tile_kernel_body.h"

const frugal::TileKernel& frugal::baseline_tile_kernel() { return kKernel; }

const frugal::TileKernel& frugal::tile_kernel() {
#if defined(__x86_64__)
  static const bool avx512 =
      __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (avx512) return avx512_tile_kernel();
#endif
  return baseline_tile_kernel();
}
