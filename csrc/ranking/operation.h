// How a query vector and a row of the table combine into a key. A larger key is a better score.
#pragma once

namespace frugal {

enum class Operation {
  kDot,      // a . b                          DistMult, ComplEx, SimplE, RESCAL
  kL2,       // -|a - b|^2                     TransE_l2; ranked as 2a . b - |b|^2, a constant per query off
  kL1,       // -sum |a - b|                   TransE_l1, TransR
  kModulus,  // -sum sqrt(dre^2 + dim^2)       RotatE; the first half of a vector is real, the second imaginary
};

}  // namespace frugal
