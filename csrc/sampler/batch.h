// The batch of one rank in one step, with all derived indices, so that the step need not compute them.
//
// Names: B positives in chunks of `chunk_size`; each chunk shares `negatives_per_chunk` sampled entities, which replace
// the heads or the tails of its positives. U distinct entities and R distinct relations occur in the step.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace frugal {

struct Batch : std::enable_shared_from_this<Batch> {  // so that Python's are shared with C++
  std::int64_t step = -1;         // from 0; unbounded
  bool corrupt_head = false;      // whether the negatives replace heads (else tails)
  std::int64_t chunk_size = 0;
  std::int64_t negatives_per_chunk = 0;

  std::vector<std::int64_t> head, relation, tail;  // (B,) ids of the positives
  std::vector<std::int64_t> negative;              // (chunks * negatives_per_chunk,) entity ids, chunk after chunk
  std::vector<float> weight;                       // (B,) edge importance, or empty

  std::vector<std::int64_t> entities;                         // (U,) distinct entity ids, ascending
  std::vector<std::int32_t> head_slot, tail_slot;             // (B,) index into entities
  std::vector<std::int32_t> negative_slot;                    // like negative: index into entities
  std::vector<std::int64_t> relations;                        // (R,) distinct relation ids, ascending
  std::vector<std::int32_t> relation_slot;                    // (B,) index into relations

  // Occurrences of entity u: positive_occurrence[positive_offset[u] .. positive_offset[u + 1]), where i < B is the head
  // of edge i and i >= B the tail of edge i - B, ascending; and the same for negatives (index into `negative`).
  std::vector<std::int32_t> positive_offset, positive_occurrence;  // (U + 1,), (2 B,)
  std::vector<std::int32_t> negative_offset, negative_occurrence;  // (U + 1,), (chunks * negatives_per_chunk,)
  std::vector<std::int32_t> relation_offset, relation_occurrence;  // (R + 1,), (B,) edges of relation r, ascending

  std::shared_ptr<void> packed;  // what the packer of the batch's stream, if it has one, made of all this

  std::int64_t positives() const { return static_cast<std::int64_t>(head.size()); }
  std::int64_t chunks() const { return chunk_size ? positives() / chunk_size : 0; }

  // f(array) for each array of `batch`, a Batch or a const one, in the order in which they are declared.
  template <typename B, typename F>
  static void for_each_array(B& batch, F f) {
    f(batch.head), f(batch.relation), f(batch.tail), f(batch.negative), f(batch.weight);
    f(batch.entities), f(batch.head_slot), f(batch.tail_slot), f(batch.negative_slot);
    f(batch.relations), f(batch.relation_slot);
    f(batch.positive_offset), f(batch.positive_occurrence), f(batch.negative_offset), f(batch.negative_occurrence);
    f(batch.relation_offset), f(batch.relation_occurrence);
  }
};

}  // namespace frugal
