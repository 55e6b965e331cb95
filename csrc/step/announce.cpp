#include "step/announce.h"

namespace frugal {
namespace {

// Appends the lengths of the lists that `offset` divides.
void append_counts(const std::vector<std::int32_t>& offset, std::vector<std::int32_t>& counts) {
  for (std::size_t u = 0; u + 1 < offset.size(); ++u) counts.push_back(offset[u + 1] - offset[u]);
}

}  // namespace

BatchRows entities_of(const Batch& batch) {
  BatchRows found{batch.entities, {}};
  found.occurrences.reserve(2 * batch.entities.size());
  for (std::size_t u = 0; u < batch.entities.size(); ++u)
    found.occurrences.push_back(batch.positive_offset[u + 1] > batch.positive_offset[u]);
  append_counts(batch.negative_offset, found.occurrences);
  return found;
}

BatchRows relations_of(const Batch& batch) {
  BatchRows found{batch.relations, {}};
  append_counts(batch.relation_offset, found.occurrences);
  return found;
}

BatchRows projections_of(const Batch& batch) {
  BatchRows found = relations_of(batch);
  append_counts(batch.relation_offset, found.occurrences);
  return found;
}

}  // namespace frugal
