// Whole rows in half precision to and from floats, on the CPU.
#pragma once

#include <cstdint>

#include "base/random/rounding_noise.h"
#include "table/row_layout.h"

namespace frugal {

// layout: of the rows in half precision. values: layout.dim floats. record: a row of the table. columns: which of whole
// rows these are.
void expand_embedding(const RowLayout& layout, const float* record, float* values);
void round_embedding(const RowLayout& layout, const float* values, float* record, const RoundingNoise& noise,
                     const WholeColumns& columns = {});
void round_embedding_to_nearest(const RowLayout& layout, const float* values, float* record);

// The same for whole records: expanded ones have the state behind the embedding, as rows of floats do.
void expand_record(const RowLayout& layout, const float* record, float* expanded);
void round_record(const RowLayout& layout, const float* expanded, float* record, const RoundingNoise& noise,
                  const WholeColumns& columns = {});

}  // namespace frugal
