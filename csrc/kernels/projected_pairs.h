// Queries against negatives that were projected for each of them (TransR): no row is anybody else's.
#pragma once

#include "kernels/pair_terms.h"

namespace frugal {

// projected (groups, negatives, edges, columns): what each edge of a group, side by side, makes of each negative.
// query (groups * edges, columns).
struct ProjectedShape {
  std::int64_t groups, negatives, edges, columns;

  FRUGAL_PAIR_CODE std::int64_t rows() const { return groups * negatives * edges; }
};

}  // namespace frugal
