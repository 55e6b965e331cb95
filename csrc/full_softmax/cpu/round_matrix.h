// A matrix in numbers of 16 bits, on the CPU. See full_softmax/rounding.h.
#pragma once

#include "full_softmax/rounding.h"

namespace frugal::cpu {

void round_matrix(const MatrixRounding& rounding);

}  // namespace frugal::cpu
