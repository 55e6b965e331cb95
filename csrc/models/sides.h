// A positive's two ends by what happens to them: one is fixed, the other is what negatives replace.
#pragma once

#include "models/model.h"

namespace frugal {

struct Sides {
  const float* fixed;
  const float* corrupted;

  Sides(const Triple& x, bool corrupt_head)
      : fixed(corrupt_head ? x.tail : x.head), corrupted(corrupt_head ? x.head : x.tail) {}
};

struct SideGradients {
  float* fixed;
  float* corrupted;
  float* relation;

  SideGradients(const TripleGradient& x, bool corrupt_head)
      : fixed(corrupt_head ? x.tail : x.head), corrupted(corrupt_head ? x.head : x.tail), relation(x.relation) {}
};

}  // namespace frugal
