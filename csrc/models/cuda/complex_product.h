// Products of rows of complex numbers on a CUDA device; the reference, to the bit, is cpu/complex_product.h.
#pragma once

#include "models/complex_product.h"
#include "rows/cuda/plan_kernels.h"

namespace frugal::cuda {

// All pointers must be valid on the device. Throws DeviceError if the launch fails.
void multiply_complex(const ComplexProduct& product, const Launch& launch);

}  // namespace frugal::cuda
