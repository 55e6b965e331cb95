// Updates from sums of gradients on the CPU. See kernels/summed_row.h and optim/summed_update.h.
#pragma once

#include <cstdint>

#include "kernels/summed_row.h"

namespace frugal::cpu {

// Where each row of a step on the CPU is read and written: (count,) records. A row whose destination is nullptr is not
// updated; the sum of its gradients goes to `gradient` (which may be null if there is none).
struct RowPointers {
  float* const* source;
  float* const* destination;
  float* const* gradient;
  std::int64_t count;
  std::int64_t dim;
};

// Row u is updated from the sum of its occurrences. Results do not depend on the number of threads.
void update_from_gradients(const RowPointers& rows, const EntryGradients& gradients, const UpdateRule& rule);

// The twin of cuda/summed_update.h.
void update_from_sums(const RowMemory& memory, const RowWrites& writes, const float* records, const float* sums,
                      const UpdateRule& rule);

}  // namespace frugal::cpu
