// A lookup carried out on rows of the CPU: embeddings out, one update per row from the sum of its gradients in.
#pragma once

#include "rows/row_program.h"
#include "store/lookup.h"
#include "store/step_rows.h"
#include "table/host_table.h"
#include "table/summed_update.h"

namespace frugal {

// out (n, dim): the embeddings of ids (n,) in the table; zeros for kNoRow. Throws std::out_of_range for another id
// outside the table.
void gather_ids(HostTable& table, const std::int64_t* ids, std::int64_t count, float* out);

// out (n, dim): the embeddings of a lookup whose rows are those of the running step; zeros for no row.
void gather_lookup(const StepRows& rows, const Lookup& lookup, float* out);

// Rows of a lookup are updated in the table. values: gradients of dim floats, `stride` apart, as `order` numbers them:
// occurrence i of the lookup's order has gradient order[i].
void update_table(HostTable& table, const Lookup& lookup, const float* values, std::int64_t stride,
                  const std::int32_t* order, const UpdateRule& rule);

// The same for the running step, whose rows are the lookup's: all of them are written to their destinations.
void update_step(const StepRows& rows, const Lookup& lookup, const float* values, std::int64_t stride,
                 const std::int32_t* order, const UpdateRule& rule);

}  // namespace frugal
