// Products of rows of complex numbers on the CPU; see models/complex_product.h.
#pragma once

#include "models/complex_product.h"

namespace frugal::cpu {

void multiply_complex(const ComplexProduct& product);

}  // namespace frugal::cpu
