// Row-wise Adagrad for one entry, on records wherever they lie.
//
// An entry is `count` occurrences of rows: occurrence i changes records[i] (an embedding with its state behind it) by
// gradients[i] (dim floats each, contiguous), in order, duplicates included, as table/row_adagrad.h says. Results do
// not depend on the number of threads: all occurrences of a record are one thread's work. An occurrence whose record is
// nullptr changes nothing.
#pragma once

#include <cstdint>

#include "table/row_adagrad.h"

namespace frugal {

// First half: adds to the states. states[i] = state of records[i] after all of the entry.
void accumulate_entry(float* const* records, std::int64_t count, std::int64_t dim, const float* gradients,
                      float* states);

// Second half: moves the rows. deviations[i] divides the move of occurrence i.
void move_entry(const RowAdagrad& optimizer, float* const* records, std::int64_t count, std::int64_t dim,
                const float* gradients, const float* deviations);

// Both halves, with correctly rounded square roots.
void apply_entry(const RowAdagrad& optimizer, float* const* records, std::int64_t count, std::int64_t dim,
                 const float* gradients);

}  // namespace frugal
