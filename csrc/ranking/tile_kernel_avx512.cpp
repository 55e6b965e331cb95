constexpr int kWidth = 16;
constexpr int kStripQueries = 12;
#include "ranking/tile_kernel_body.h"

const frugal::TileKernel& frugal::avx512_tile_kernel() { return kKernel; }
