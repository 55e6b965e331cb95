#include "kernels/cuda/host_pieces.h"

#include "kernels/cuda/fetch.cuh"

namespace frugal::cuda {

static_assert(kMostPieces <= Fetch::kMost);

void fetch(std::span<const HostPiece> pieces, const Launch& launch) {
  Fetch fetch;
  for (const HostPiece& piece : pieces)
    fetch.add(static_cast<const float*>(piece.from), static_cast<float*>(piece.to), piece.bytes / 4);
  enqueue(fetch, reinterpret_cast<cudaStream_t>(launch.stream));
}

}  // namespace frugal::cuda
