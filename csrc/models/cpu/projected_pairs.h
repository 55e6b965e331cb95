// Projected negatives on the CPU: the reference for cuda/projected_pairs.h.
#pragma once

#include "models/projected_pairs.h"

namespace frugal::cpu {

// projected (edges, negatives, width): candidates times the matrix of each run's first occurrence; what belongs to the
// others is left alone. distances (edges, negatives): sum |query - projected|.
void project(const ProjectedPairs& p, const float* candidates, const float* query, float* projected, float* distances);

// slope (edges, negatives): d loss / d score, where a score is a constant less the distance.

// of_candidates (chunks, stripes, negatives, height): gradients by candidates, of each stripe of runs. rows (chunks, 1
// + chunk_size): becomes the number of a chunk's runs, and behind it their rows of the step.
void project_back(const ProjectedPairs& p, const float* query, const float* slope, const float* projected,
                  std::int32_t* rows, float* of_candidates);

// of_matrices (edges, height, width): gradients by each edge's matrix; of_query (edges, width).
void differentiate_matrices(const ProjectedPairs& p, const float* candidates, const float* query, const float* slope,
                            const float* projected, float* of_matrices, float* of_query);

}  // namespace frugal::cpu
