#include "rows/cuda/host_pieces.h"

#include "rows/cuda/fetch.cuh"

namespace frugal::cuda {

static_assert(kMostPieces <= Fetch::kMost);

void fetch(std::span<const HostPiece> pieces, const Launch& launch) {
  enqueue(fetch_of(pieces), reinterpret_cast<cudaStream_t>(launch.stream));
}

}  // namespace frugal::cuda
