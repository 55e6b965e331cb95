// The batches of several ranks as one, for devices that each own some columns of every row and so compute for all.
#pragma once

#include <memory>
#include <vector>

#include "sampler/sampler.h"

namespace frugal {

// A joined batch has the positives of rank 0, then those of rank 1, ..., and their negatives likewise: what each rank's
// sampler draws for the step. Its distinct rows, slots and occurrences are those of the whole.
class JoinedSampler final : public BatchSource {
 public:
  // ranks: in their order. Throws std::invalid_argument if there are none, or if they differ in what a batch has once:
  // entities, relations, negatives, positives of a chunk, whether edges have weights.
  explicit JoinedSampler(std::vector<std::shared_ptr<const Sampler>> ranks);

  SamplerScratch scratch() const override { return ranks_.front()->scratch(); }
  BatchLimits limits() const override;
  void sample(std::int64_t step, Batch& batch, SamplerScratch& scratch) const override;

  std::int64_t edges() const;              // of all ranks
  std::int64_t batch_size() const;         // of a full batch
  std::int64_t batches_per_epoch() const;  // of one direction, of the rank with the most
  std::int64_t chunk_size() const { return ranks_.front()->chunk_size(); }

 private:
  const std::vector<std::shared_ptr<const Sampler>> ranks_;
};

}  // namespace frugal
