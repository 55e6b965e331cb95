// A matrix in numbers of 16 bits, on a CUDA device; the reference, to the bit, is cpu/round_matrix.h.
#pragma once

#include <cstdint>

#include "full_softmax/rounding.h"

namespace frugal::cuda {

// Only enqueues. `from` has rows of whole vectors of 4 floats, `to` of 8 numbers. Throws DeviceError if a launch fails.
void round_matrix(const MatrixRounding& rounding, std::uintptr_t stream);

}  // namespace frugal::cuda
