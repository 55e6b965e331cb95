#include "step/announce.h"

#include <vector>

namespace frugal {
namespace {

// Appends the lengths of the lists that `offset` divides.
void append_counts(const std::vector<std::int32_t>& offset, std::vector<std::int32_t>& counts) {
  for (std::size_t u = 0; u + 1 < offset.size(); ++u) counts.push_back(offset[u + 1] - offset[u]);
}

}  // namespace

void announce_entities(StepRows& rows, const Batch& batch) {
  std::vector<std::int32_t> occurrences;
  occurrences.reserve(2 * batch.entities.size());
  for (std::size_t u = 0; u < batch.entities.size(); ++u)
    occurrences.push_back(batch.positive_offset[u + 1] > batch.positive_offset[u]);
  append_counts(batch.negative_offset, occurrences);
  rows.announce(batch.step, batch.entities, occurrences);
}

void announce_relations(StepRows& rows, const Batch& batch) {
  std::vector<std::int32_t> occurrences;
  append_counts(batch.relation_offset, occurrences);
  rows.announce(batch.step, batch.relations, occurrences);
}

void announce_projections(StepRows& rows, const Batch& batch) {
  std::vector<std::int32_t> occurrences;
  append_counts(batch.relation_offset, occurrences);
  append_counts(batch.relation_offset, occurrences);
  rows.announce(batch.step, batch.relations, occurrences);
}

}  // namespace frugal
