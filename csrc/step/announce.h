// The facts about the rows of a batch that are announced: which they are, and how many gradients each will have in each
// entry.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sampler/batch.h"

namespace frugal {

// See StepRows::announce. rows: the batch's own.
struct BatchRows {
  std::span<const std::int64_t> rows;
  std::vector<std::int32_t> occurrences;
};

// Two entries: the positives, where all occurrences of a row are one gradient, and the negatives, one gradient each.
BatchRows entities_of(const Batch& batch);

// One entry: a gradient per edge.
BatchRows relations_of(const Batch& batch);

// Two entries of a gradient per edge: from the positives' own scores and from their negatives' (TransR).
BatchRows projections_of(const Batch& batch);

}  // namespace frugal
