// The facts about the rows of a batch that are announced: which they are, and how many gradients each will have in each
// entry.
#pragma once

#include "sampler/batch.h"
#include "store/step_rows.h"

namespace frugal {

// Two entries: the positives, where all occurrences of a row are one gradient, and the negatives, one gradient each.
void announce_entities(StepRows& rows, const Batch& batch);

// One entry: a gradient per edge.
void announce_relations(StepRows& rows, const Batch& batch);

// Two entries of a gradient per edge: from the positives' own scores and from their negatives' (TransR).
void announce_projections(StepRows& rows, const Batch& batch);

}  // namespace frugal
