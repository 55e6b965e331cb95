// Pieces of host memory that kernels fetch, as Python names them: by addresses.
#pragma once

#include <cstdint>
#include <stdexcept>

#include "rows/cuda/host_pieces.h"

namespace frugal::bindings {

// Throws std::invalid_argument with the sentence unless a piece begins and ends at whole words.
inline void require_whole_words(const cuda::HostPiece& piece, const char* sentence) {
  if ((reinterpret_cast<std::uintptr_t>(piece.to) | reinterpret_cast<std::uintptr_t>(piece.from) |
       static_cast<std::uintptr_t>(piece.bytes)) %
          cuda::kPieceAlignment !=
      0)
    throw std::invalid_argument(sentence);
}

}  // namespace frugal::bindings
