// DGL-KE's training batches as a pure function of (seed, step, rank): no state, so any thread makes any batch, in any
// order, and a run resumes at any step.
//
// Even steps corrupt tails and odd steps heads; each of the two walks its own epochs over the rank's edges, in a new
// random order each epoch and without replacement. Negatives are uniform over all entities, `negatives` for each chunk
// of positives, which share them; where workers own entities, over those of the rank's own.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/random/permutation.h"
#include "sampler/batch_source.h"
#include "sampler/id_array.h"
#include "sampler/triple_set.h"
#include "table/row_owners.h"

namespace frugal {

// The training graph: views of memory that must outlive the sampler.
struct EdgeList {
  IdArray head, relation, tail;       // one length
  const float* weight = nullptr;      // what multiplies an edge's losses, one per edge, or none
  const float* odd_weight = nullptr;  // the same in odd steps, where it is another one there

  const float* weight_in(std::int64_t step) const { return step % 2 == 1 && odd_weight ? odd_weight : weight; }
};

struct SamplerConfig {
  std::int64_t entities = 0, relations = 0;
  std::int64_t batch_size = 0;  // positives of a step; rounded up to a multiple of a chunk if it is larger
  std::int64_t negatives = 0;   // negatives that a chunk shares (neg_sample_size); 0: there are none, and no chunks
  std::uint64_t seed = 0;
  std::int64_t rank = 0, ranks = 1;
  // Above 0: odd steps train on (tail, relation + inverse, head) and corrupt its tails, rather than heads.
  std::int64_t inverse = 0;
  std::int64_t chunk = 0;  // positives that share negatives; 0: as many as there are negatives
  // Whether negatives are drawn again that make a triple of the graph with a positive of their chunk, up to kDrawnAgain
  // times.
  bool exclude_positive = false;
  // Where there are any: negatives are drawn from the entities that worker `rank` owns alone.
  std::optional<RowOwners> owners = {};
};

class Sampler final : public BatchSource {
 public:
  static constexpr std::int64_t kDrawnAgain = 64;

  // The rank's edges are edges[part[0]], edges[part[1]], ...; without `part`, its share of a seeded random partition of
  // all edges into `ranks` equal parts. Throws std::invalid_argument for sizes that do not fit together.
  Sampler(const EdgeList& edges, const SamplerConfig& config, const IdArray* part = nullptr);

  SamplerScratch scratch() const override { return {BatchIndexer(config_.entities, config_.relations), {}}; }
  BatchLimits limits() const override;
  void sample(std::int64_t step, Batch& batch, SamplerScratch& scratch) const override;

  std::int64_t edges() const { return edge_count_; }  // of this rank
  std::int64_t batch_size() const { return batch_size_; }
  std::int64_t chunk_size() const { return chunk_size_; }
  std::int64_t batches_per_epoch() const { return batches_per_epoch_; }  // of one direction
  const SamplerConfig& config() const { return config_; }

 private:
  void draw_edges(std::int64_t step, std::vector<std::int64_t>& edge) const;
  void draw_negatives(std::int64_t step, std::int64_t* negative, std::int64_t count) const;
  // The same of the batch's negatives that make a triple with one of its positives, which are as the graph has them.
  void draw_again(Batch& batch) const;
  std::int64_t negative_of(std::uint32_t high, std::uint32_t low) const;  // 64 random bits
  std::int64_t negatives_of_step() const { return batch_size_ / chunk_size_ * config_.negatives; }

  EdgeList list_;
  SamplerConfig config_;
  TripleSet known_;         // of none unless positives are excluded
  IdArray part_;            // empty: the partition is computed
  Permutation rank_order_;  // over all edges; rank r owns a range of its positions
  std::int64_t rank_begin_ = 0, edge_count_ = 0;
  std::int64_t batch_size_ = 0, chunk_size_ = 0, batches_per_epoch_ = 0;
};

}  // namespace frugal
