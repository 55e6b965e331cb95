#include "sampler/sampler.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "base/random/philox.h"
#include "base/random/stream.h"

namespace frugal {
namespace {

void require(bool condition, const char* message) {
  if (!condition) throw std::invalid_argument(message);
}

// A number in [0, bound) from 64 random bits; no value is favoured by more than bound / 2^64.
std::int64_t bounded(std::uint32_t high, std::uint32_t low, std::int64_t bound) {
  __extension__ using Wide = unsigned __int128;
  const std::uint64_t bits = std::uint64_t{high} << 32 | low;
  return static_cast<std::int64_t>(static_cast<Wide>(bits) * static_cast<std::uint64_t>(bound) >> 64);
}

}  // namespace

Sampler::Sampler(const EdgeList& edges, const SamplerConfig& config, const IdArray* part)
    : list_(edges), config_(config) {
  const std::int64_t total = edges.head.size();
  require(edges.relation.size() == total && edges.tail.size() == total,
          "head, relation and tail must have one length");
  require(config.entities > 0 && config.relations > 0, "a graph needs at least one entity and one relation");
  require(config.batch_size > 0, "the batch size must be at least 1");
  require(config.negatives >= 0, "the number of negatives must be at least 0");
  require(config.chunk >= 0, "the size of a chunk must be at least 0");
  require(config.rank >= 0 && config.rank < config.ranks, "the rank must be in [0, ranks)");
  require(config.ranks <= std::int64_t{1} << 31, "too many ranks");
  require(!config.owners || (config.owners->rows() == config.entities && config.owners->workers() == config.ranks),
          "the owners must be those of all entities, one for each rank");
  require(config.inverse >= 0 && config.inverse < config.relations, "inverse relations must be in the table");
  if (part) {
    part_ = *part;
    edge_count_ = part_.size();
  } else {
    __extension__ using Wide = __int128;  // total * rank need not fit into 64 bits
    rank_begin_ = static_cast<std::int64_t>(static_cast<Wide>(total) * config.rank / config.ranks);
    edge_count_ = static_cast<std::int64_t>(static_cast<Wide>(total) * (config.rank + 1) / config.ranks) - rank_begin_;
    rank_order_ = Permutation(total, config.seed, random_stream(RandomUse::rank_order, 0), 0);
  }
  require(edge_count_ > 0, "a rank needs at least one edge");

  if (config.exclude_positive)
    known_ = TripleSet(edges.head, edges.relation, edges.tail, config.entities, config.relations);

  // A batch is a whole number of chunks. Only a graph with fewer edges than a chunk has a smaller one.
  const std::int64_t chunk = std::max<std::int64_t>(1, config.chunk ? config.chunk : config.negatives);
  batch_size_ = config.batch_size;
  if (batch_size_ > chunk) batch_size_ = (batch_size_ + chunk - 1) / chunk * chunk;
  chunk_size_ = std::min({chunk, batch_size_, edge_count_});
  batch_size_ = std::min(batch_size_, edge_count_ / chunk_size_ * chunk_size_);
  const std::int64_t rest = edge_count_ % batch_size_;
  batches_per_epoch_ = edge_count_ / batch_size_ + (rest > 0 && rest % chunk_size_ == 0);
}

void Sampler::draw_edges(std::int64_t step, std::vector<std::int64_t>& edge) const {
  const bool corrupt_head = step % 2 == 1;
  const std::int64_t epoch = step / 2 / batches_per_epoch_;
  const std::int64_t first = step / 2 % batches_per_epoch_ * batch_size_;
  const auto stream =
      random_stream(RandomUse::epoch_order, static_cast<std::uint32_t>(2 * config_.rank + corrupt_head));
  const Permutation order(edge_count_, config_.seed, stream, epoch);

  // The graph is far larger than any cache, so ask for each line as soon as its address is known.
  edge.resize(std::min(batch_size_, edge_count_ - first));
  order.range(first, static_cast<std::int64_t>(edge.size()), edge.data());
  if (!part_.empty()) {
    for (const std::int64_t position : edge) part_.prefetch(position);
    for (std::int64_t& e : edge) e = part_[e];
  } else if (config_.ranks > 1) {
    for (std::int64_t& e : edge) e += rank_begin_;
    rank_order_.apply(static_cast<std::int64_t>(edge.size()), edge.data());
  }
  const float* const weight = list_.weight_in(step);
  for (const std::int64_t e : edge) {
    if (static_cast<std::uint64_t>(e) >= static_cast<std::uint64_t>(list_.head.size())) {
      throw std::out_of_range("the rank's part names edge " + std::to_string(e) + " of " +
                              std::to_string(list_.head.size()));
    }
    list_.head.prefetch(e);
    list_.relation.prefetch(e);
    list_.tail.prefetch(e);
    if (weight) __builtin_prefetch(weight + e, 0, 2);
  }
}

std::int64_t Sampler::negative_of(std::uint32_t high, std::uint32_t low) const {
  if (!config_.owners) return bounded(high, low, config_.entities);
  const auto rank = static_cast<int>(config_.rank);
  return config_.owners->id(rank, bounded(high, low, config_.owners->count(rank)));
}

void Sampler::draw_negatives(std::int64_t step, std::int64_t* negative, std::int64_t count) const {
  const auto stream = random_stream(RandomUse::negative, static_cast<std::uint32_t>(config_.rank));
  // Two negatives per block of 128 bits. Each step has blocks for a full batch, used or not, so steps never overlap.
  const std::int64_t blocks_per_step = (negatives_of_step() + 1) / 2;
  const std::uint64_t first = static_cast<std::uint64_t>(step) * static_cast<std::uint64_t>(blocks_per_step);
  constexpr int kBlocks = 8;
  for (std::int64_t begin = 0; begin < count; begin += 2 * kBlocks) {
    const auto blocks = philox_blocks<kBlocks>(config_.seed, first + static_cast<std::uint64_t>(begin / 2), stream);
    for (std::int64_t i = begin; i < std::min(count, begin + 2 * kBlocks); ++i) {
      const PhiloxBlock& bits = blocks[static_cast<std::size_t>(i - begin) / 2];
      negative[i] = i % 2 ? negative_of(bits[2], bits[3]) : negative_of(bits[0], bits[1]);
    }
  }
}

void Sampler::draw_again(Batch& batch) const {
  const auto stream = random_stream(RandomUse::negative_again, static_cast<std::uint32_t>(config_.rank));
  const bool heads = batch.step % 2 == 1;
  for (std::size_t i = 0; i < batch.negative.size(); ++i) {
    const std::size_t chunk = i / static_cast<std::size_t>(config_.negatives) * static_cast<std::size_t>(chunk_size_);
    const auto makes_a_triple = [&] {
      for (std::size_t edge = chunk; edge < chunk + static_cast<std::size_t>(chunk_size_); ++edge) {
        if (heads ? known_.contains(batch.negative[i], batch.relation[edge], batch.tail[edge])
                  : known_.contains(batch.head[edge], batch.relation[edge], batch.negative[i]))
          return true;
      }
      return false;
    };
    // Each negative of each step has numbers of its own, used or not.
    const std::uint64_t own =
        static_cast<std::uint64_t>(batch.step) * static_cast<std::uint64_t>(negatives_of_step()) + i;
    for (std::int64_t again = 0; again < kDrawnAgain && makes_a_triple(); ++again) {
      const auto block = philox_blocks<1>(config_.seed, own * kDrawnAgain + static_cast<std::uint64_t>(again), stream);
      batch.negative[i] = negative_of(block[0][0], block[0][1]);
    }
  }
}

BatchLimits Sampler::limits() const {
  const std::int64_t negatives = negatives_of_step();
  return {batch_size_, negatives, std::min(config_.entities, 2 * batch_size_ + negatives),
          std::min(config_.relations, batch_size_), list_.weight != nullptr};
}

void Sampler::sample(std::int64_t step, Batch& batch, SamplerScratch& scratch) const {
  require(step >= 0, "steps are counted from 0");
  draw_edges(step, scratch.edge);
  const std::size_t count = scratch.edge.size();
  const auto negatives = static_cast<std::int64_t>(count) / chunk_size_ * config_.negatives;
  const bool turned = config_.inverse && step % 2 == 1;
  batch.step = step;
  batch.corrupt_head = step % 2 == 1 && !turned;
  batch.chunk_size = chunk_size_;
  batch.negatives_per_chunk = config_.negatives;
  batch.head.resize(count);
  batch.relation.resize(count);
  batch.tail.resize(count);
  const float* const weight = list_.weight_in(step);
  batch.weight.resize(weight ? count : 0);
  batch.negative.resize(static_cast<std::size_t>(negatives));
  draw_negatives(step, batch.negative.data(), negatives);  // while the lines of the edges are fetched
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t edge = scratch.edge[i];
    batch.head[i] = list_.head[edge];
    batch.relation[i] = list_.relation[edge];
    batch.tail[i] = list_.tail[edge];
    if (weight) batch.weight[i] = weight[edge];
  }
  if (config_.exclude_positive) draw_again(batch);
  if (turned) {
    std::swap(batch.head, batch.tail);
    for (std::int64_t& relation : batch.relation) relation += config_.inverse;
  }
  scratch.indexer.index(batch);
}

}  // namespace frugal
