// Projected negatives on the CPU: the twin of cuda/projected_pairs.h.
#pragma once

#include "kernels/projected_pairs.h"

namespace frugal::cpu {

// projected (edges, negatives, width): candidates times the matrix of each run's first occurrence; what belongs to the
// others is left alone. distances (edges, negatives): sum |query - projected|.
void project(const ProjectedPairs& p, const float* candidates, const float* query, float* projected, float* distances);

// slope (edges, negatives): d loss / d score, where a score falls with the distance. gradients (chunks, negatives,
// chunk_size, width) by what each edge made of the negatives, 0 where that equals the query; of_query (edges, width).
void differentiate_projected(const ProjectedPairs& p, const float* query, const float* slope, const float* projected,
                             float* gradients, float* of_query);

// of_candidates (chunks, stripes, negatives, height): of each stripe of occurrences, the sum of gradients times
// transposed matrices.
void project_back(const ProjectedPairs& p, const float* gradients, float* of_candidates);

}  // namespace frugal::cpu
