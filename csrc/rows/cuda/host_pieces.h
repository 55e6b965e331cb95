// Pieces of host memory brought to a device by one kernel, where several copies would each be a call of their own.
#pragma once

#include <cstdint>
#include <span>

#include "rows/cuda/plan_kernels.h"

namespace frugal::cuda {

struct HostPiece {
  void* to;          // device memory
  const void* from;  // pinned or registered
  std::int64_t bytes;
};

inline constexpr std::int64_t kPieceAlignment = 16;  // of addresses and bytes
inline constexpr std::size_t kMostPieces = 8;

// Throws DeviceError if the launch fails.
void fetch(std::span<const HostPiece> pieces, const Launch& launch);

}  // namespace frugal::cuda
