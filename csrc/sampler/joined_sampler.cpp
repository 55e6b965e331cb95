#include "sampler/joined_sampler.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace frugal {

JoinedSampler::JoinedSampler(std::vector<std::shared_ptr<const Sampler>> ranks) : ranks_(std::move(ranks)) {
  if (ranks_.empty()) throw std::invalid_argument("a joined batch needs at least one rank");
  const Sampler& first = *ranks_.front();
  for (const auto& rank : ranks_) {
    if (rank->config().entities != first.config().entities || rank->config().relations != first.config().relations)
      throw std::invalid_argument("the ranks sample from different graphs");
    if (rank->config().negatives != first.config().negatives || rank->chunk_size() != first.chunk_size() ||
        rank->limits().weighted != first.limits().weighted)
      throw std::invalid_argument("the ranks' chunks differ: one has fewer edges than a chunk has positives");
  }
}

BatchLimits JoinedSampler::limits() const {
  const SamplerConfig& graph = ranks_.front()->config();
  BatchLimits joined;
  for (const auto& rank : ranks_) {
    const BatchLimits part = rank->limits();
    joined.positives += part.positives;
    joined.negatives += part.negatives;
    joined.weighted = part.weighted;
  }
  joined.entities = std::min(graph.entities, 2 * joined.positives + joined.negatives);
  joined.relations = std::min(graph.relations, joined.positives);
  return joined;
}

void JoinedSampler::sample(std::int64_t step, Batch& batch, SamplerScratch& scratch) const {
  ranks_.front()->clear(step, batch);
  for (const auto& rank : ranks_) rank->draw(step, batch, scratch);
  scratch.indexer.index(batch);
}

std::int64_t JoinedSampler::edges() const {
  std::int64_t sum = 0;
  for (const auto& rank : ranks_) sum += rank->edges();
  return sum;
}

std::int64_t JoinedSampler::batch_size() const { return limits().positives; }

std::int64_t JoinedSampler::batches_per_epoch() const {
  std::int64_t most = 0;
  for (const auto& rank : ranks_) most = std::max(most, rank->batches_per_epoch());
  return most;
}

}  // namespace frugal
