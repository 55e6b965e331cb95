// A positive's two ends by what happens to them: one is fixed, the other is what negatives replace.
#pragma once

#include "base/linalg/instruction_set.h"
#include "models/model.h"

namespace frugal {

struct Sides {
  const float* fixed;
  const float* corrupted;

  FRUGAL_DEVICE Sides(const Triple& x, bool corrupt_head)
      : fixed(corrupt_head ? x.tail : x.head), corrupted(corrupt_head ? x.head : x.tail) {}
};

struct SideGradients {
  float* fixed;
  float* corrupted;
  float* relation;

  FRUGAL_DEVICE SideGradients(const TripleGradient& x, bool corrupt_head)
      : fixed(corrupt_head ? x.tail : x.head), corrupted(corrupt_head ? x.head : x.tail), relation(x.relation) {}
};

}  // namespace frugal
