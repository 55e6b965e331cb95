// Every row against every other row of a chunk: the reference, to the bit, for cuda/pair_kernels.h.
#pragma once

#include "models/pair_terms.h"

namespace frugal::cpu {

// distances (chunks, mine, theirs): of each row of `mine` to each row of `theirs`, summed in the order of columns.
void pair_distances(PairKind kind, const PairShape& shape, const float* mine, const float* theirs, float* distances);

// gradients (chunks, mine, columns): the sum over j, in order, of weight(i, j) times the derivative of distance(i, j)
// by row i of `mine`.
void pair_gradients(PairKind kind, const PairShape& shape, const float* mine, const float* theirs,
                    const PairWeights& weights, float* gradients);

}  // namespace frugal::cpu
