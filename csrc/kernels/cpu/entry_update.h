// Row-wise Adagrad for one entry, straight into the table.
//
// An entry is `count` occurrences of rows: occurrence i changes row ids[i] by gradients[i] (dim floats each, contiguous),
// in order, duplicates included, as optim/row_adagrad.h says. Results do not depend on the number of threads: all
// occurrences of a row are one thread's work. Each function throws std::out_of_range for an id outside the table, before
// anything is written.
#pragma once

#include <cstdint>

#include "memory/host_table.h"
#include "optim/row_adagrad.h"

namespace frugal {

// First half: adds to the states. states[i] = state of row ids[i] after all of the entry.
void accumulate_entry(HostTable& table, const std::int64_t* ids, std::int64_t count, const float* gradients, float* states);

// Second half: moves the rows. deviations[i] divides the move of occurrence i.
void move_entry(HostTable& table, const RowAdagrad& optimizer, const std::int64_t* ids, std::int64_t count,
                const float* gradients, const float* deviations);

// Both halves, with correctly rounded square roots.
void apply_entry(HostTable& table, const RowAdagrad& optimizer, const std::int64_t* ids, std::int64_t count,
                 const float* gradients);

}  // namespace frugal
