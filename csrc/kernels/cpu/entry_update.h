// Row-wise Adagrad for one entry, straight into the table.
#pragma once

#include <cstdint>

#include "memory/host_table.h"
#include "optim/row_adagrad.h"

namespace frugal {

// Applies an entry: occurrence i changes row ids[i] by gradients[i] (dim floats each, contiguous), in order, duplicates
// included, as optim/row_adagrad.h says. The result does not depend on the number of threads: all occurrences of a row
// are one thread's work. Throws std::out_of_range for an id outside the table, before anything is written.
void apply_entry(HostTable& table, const RowAdagrad& optimizer, const std::int64_t* ids, std::int64_t count,
                 const float* gradients);

}  // namespace frugal
