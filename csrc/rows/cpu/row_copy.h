// Copies of embeddings out of their records.
#pragma once

#include <cstdint>

namespace frugal {

// out[i] = the embedding of records[i]; out is (count, dim), contiguous.
void gather_rows(float* const* records, std::int64_t count, std::int64_t dim, float* out);

}  // namespace frugal
