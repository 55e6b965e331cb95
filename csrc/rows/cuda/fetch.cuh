// Pieces of host memory that kernels fetch in one launch: a step's batch and its plans, or what a rank reads of others
// where parts of an exchange lie there.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/device/cuda_check.h"
#include "rows/cuda/host_pieces.h"

namespace frugal::cuda {

// Read once, in whole lines.
struct Fetch {
  static constexpr int kThreads = 512, kBlocks = 64;  // of a piece, at most: enough loads under way to fill a link
  static constexpr int kAhead = 4;                    // words that a thread asks for before it stores them
  static constexpr int kMost = 14;                    // pieces
  struct Piece {
    const float4* from;
    float4* to;
    std::int64_t words;
  };
  int count = 0;
  Piece piece[kMost];

  // floats: a multiple of 4, and so are places.
  void add(const float* from, float* to, std::int64_t floats) {
    if (floats > 0)
      piece[count++] = {reinterpret_cast<const float4*>(from), reinterpret_cast<float4*>(to), floats / 4};
  }
  // Of so many threads, few: others bring rows at the same time.
  unsigned blocks_beside(int threads) const { return static_cast<unsigned>(blocks(threads * kAhead, 8)); }
  // That share the pieces, where a block has room for `words` at a time: at most `most` for each of them.
  std::int64_t blocks(std::int64_t words = kThreads, std::int64_t most = kBlocks) const {
    std::int64_t longest = 0;
    for (int i = 0; i < count; ++i) longest = std::max(longest, piece[i].words);
    return count * std::min<std::int64_t>(most, (longest + words - 1) / words);
  }
};

// The part of block number `block` of so many, as Fetch has them. They take the pieces in turn.
static __device__ void fetch_pieces(const Fetch& fetch, unsigned block, unsigned blocks) {
  const Fetch::Piece& piece = fetch.piece[block % fetch.count];
  const std::int64_t step = blocks / fetch.count * static_cast<std::int64_t>(blockDim.x);
  const std::int64_t mine = block / fetch.count * static_cast<std::int64_t>(blockDim.x) + threadIdx.x;
  for (std::int64_t i = mine; i < piece.words; i += Fetch::kAhead * step) {
    float4 word[Fetch::kAhead];
#pragma unroll
    for (int k = 0; k < Fetch::kAhead; ++k)
      if (i + k * step < piece.words) word[k] = piece.from[i + k * step];
#pragma unroll
    for (int k = 0; k < Fetch::kAhead; ++k)
      if (i + k * step < piece.words) piece.to[i + k * step] = word[k];
  }
}

static __global__ void __launch_bounds__(Fetch::kThreads) fetch_kernel(const __grid_constant__ Fetch fetch) {
  fetch_pieces(fetch, blockIdx.x, gridDim.x);
}

inline Fetch fetch_of(std::span<const HostPiece> pieces) {
  Fetch fetch;
  for (const HostPiece& piece : pieces)
    fetch.add(static_cast<const float*>(piece.from), static_cast<float*>(piece.to), piece.bytes / 4);
  return fetch;
}

inline void enqueue(const Fetch& fetch, cudaStream_t stream) {
  if (fetch.count == 0) return;
  const auto blocks = static_cast<unsigned>(fetch.blocks());
  constexpr int threads = Fetch::kThreads;
  fetch_kernel<<<blocks, threads, 0, stream>>>(fetch);
  cuda_check(cudaGetLastError(), "launching a fetch from host memory");
}

}  // namespace frugal::cuda
