// Queries against negatives projected for each of them, on the CPU: the twin of cuda/projected_pairs.h.
#pragma once

#include "kernels/projected_pairs.h"

namespace frugal::cpu {

// distances (groups * edges, negatives): sum |query - projected|.
void projected_distances(const ProjectedShape& shape, const float* query, const float* projected, float* distances);

// weight (groups * edges, negatives) = d loss / d distance. Turns each projected row into d loss / d row, which is 0
// where it equals the query, and writes of_query (groups * edges, columns).
void projected_gradients(const ProjectedShape& shape, const float* query, const float* weight, float* projected,
                         float* of_query);

}  // namespace frugal::cpu
