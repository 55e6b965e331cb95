// All indices of a batch in one array of a size that depends on the flags alone, so that one copy takes them to the
// device and a captured graph finds them at the same places in every step.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "sampler/batch.h"

namespace frugal {

// Sizes that do not change from step to step.
struct BatchSizes {
  std::int64_t positives, chunk_size, negatives_per_chunk;

  std::int64_t negatives() const { return positives / chunk_size * negatives_per_chunk; }
  std::int64_t most_entities() const { return 2 * positives + negatives(); }
  std::int64_t most_relations() const { return positives; }
};

// Where each part begins, in int32.
struct BatchIndices {
  std::int64_t counts, head_slot, tail_slot, relation_slot, negative_slot, positive_offset, positive_occurrence,
      negative_offset, negative_occurrence, relation_offset, size;

  explicit BatchIndices(const BatchSizes& s) {
    std::int64_t at = 0;
    const auto take = [&](std::int64_t count) {
      const std::int64_t here = at;
      at += count;
      return here;
    };
    counts = take(2);  // U, R
    head_slot = take(s.positives);
    tail_slot = take(s.positives);
    relation_slot = take(s.positives);
    negative_slot = take(s.negatives());
    positive_offset = take(s.most_entities() + 1);
    positive_occurrence = take(2 * s.positives);
    negative_offset = take(s.most_entities() + 1);
    negative_occurrence = take(s.negatives());
    relation_offset = take(s.most_relations() + 1);
    size = at;
  }

  // out: `size` int32. What a part has no use for keeps its value.
  void pack(const Batch& batch, std::int32_t* out) const {
    const auto put = [&](std::int64_t where, const std::vector<std::int32_t>& part) {
      std::ranges::copy(part, out + where);
    };
    out[counts] = static_cast<std::int32_t>(batch.entities.size());
    out[counts + 1] = static_cast<std::int32_t>(batch.relations.size());
    put(head_slot, batch.head_slot);
    put(tail_slot, batch.tail_slot);
    put(relation_slot, batch.relation_slot);
    put(negative_slot, batch.negative_slot);
    put(positive_offset, batch.positive_offset);
    put(positive_occurrence, batch.positive_occurrence);
    put(negative_offset, batch.negative_offset);
    put(negative_occurrence, batch.negative_occurrence);
    put(relation_offset, batch.relation_offset);
  }
};

}  // namespace frugal
