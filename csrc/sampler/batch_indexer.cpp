#include "sampler/batch_indexer.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

namespace frugal {
namespace {

constexpr int kDigitBits = 11;  // 8 KiB of counters per digit: they stay in the first-level cache

}  // namespace

BatchIndexer::BatchIndexer(std::int64_t entities, std::int64_t relations) : entities_(entities), relations_(relations) {
  if (entities < 1 || relations < 1) throw std::invalid_argument("a graph needs at least one entity and one relation");
}

void BatchIndexer::append(const std::vector<std::int64_t>& ids, std::int64_t bound, const char* what) {
  for (const std::int64_t id : ids) {
    if (static_cast<std::uint64_t>(id) >= static_cast<std::uint64_t>(bound)) {
      throw std::out_of_range(std::string(what) + " id " + std::to_string(id) + " is not in [0, " +
                              std::to_string(bound) + ")");
    }
    keys_.push_back(static_cast<std::uint64_t>(id) << occurrence_bits_ | keys_.size());
  }
}

// Least significant digit first, over the id's bits alone: each pass is stable, so occurrences stay ascending.
void BatchIndexer::sort(int id_bits) {
  const int passes = (id_bits + kDigitBits - 1) / kDigitBits;
  spare_.resize(keys_.size());
  for (int pass = 0; pass < passes; ++pass) {
    const int low = id_bits * pass / passes, bits = id_bits * (pass + 1) / passes - low;
    const int shift = occurrence_bits_ + low;
    const std::uint64_t mask = (std::uint64_t{1} << bits) - 1;
    std::array<std::uint32_t, 1 << kDigitBits> begin;
    std::fill_n(begin.begin(), mask + 1, 0u);
    for (const std::uint64_t key : keys_) ++begin[key >> shift & mask];
    std::uint32_t sum = 0;
    for (std::uint64_t digit = 0; digit <= mask; ++digit) sum += std::exchange(begin[digit], sum);
    for (const std::uint64_t key : keys_) spare_[begin[key >> shift & mask]++] = key;
    keys_.swap(spare_);
  }
}

void BatchIndexer::index(Batch& batch) {
  const std::size_t positives = batch.head.size(), negatives = batch.negative.size();
  if (batch.relation.size() != positives || batch.tail.size() != positives) {
    throw std::invalid_argument("head, relation and tail of a batch must have one length");
  }
  const std::size_t occurrences = 2 * positives + negatives;
  if (occurrences > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max())) {
    throw std::invalid_argument("a batch of more than 2^31 rows");
  }
  occurrence_bits_ = std::bit_width(occurrences);
  const int entity_bits = std::bit_width(static_cast<std::uint64_t>(entities_ - 1));
  const int relation_bits = std::bit_width(static_cast<std::uint64_t>(relations_ - 1));
  if (occurrence_bits_ + std::max(entity_bits, relation_bits) > 64) {
    throw std::invalid_argument("too many entities for a batch of this size");
  }

  keys_.clear();
  keys_.reserve(occurrences);
  append(batch.head, entities_, "head");
  append(batch.tail, entities_, "tail");
  append(batch.negative, entities_, "negative");
  sort(entity_bits);

  const std::uint64_t mask = (std::uint64_t{1} << occurrence_bits_) - 1;
  batch.entities.clear();
  batch.positive_offset.clear();
  batch.negative_offset.clear();
  batch.positive_occurrence.resize(2 * positives);
  batch.negative_occurrence.resize(negatives);
  slot_.resize(occurrences);
  std::int32_t seen_positives = 0, seen_negatives = 0;
  for (const std::uint64_t key : keys_) {
    const auto id = static_cast<std::int64_t>(key >> occurrence_bits_);
    const std::size_t occurrence = key & mask;
    if (batch.entities.empty() || batch.entities.back() != id) {
      batch.entities.push_back(id);
      batch.positive_offset.push_back(seen_positives);
      batch.negative_offset.push_back(seen_negatives);
    }
    slot_[occurrence] = static_cast<std::int32_t>(batch.entities.size()) - 1;
    if (occurrence < 2 * positives) {
      batch.positive_occurrence[seen_positives++] = static_cast<std::int32_t>(occurrence);
    } else {
      batch.negative_occurrence[seen_negatives++] = static_cast<std::int32_t>(occurrence - 2 * positives);
    }
  }
  batch.positive_offset.push_back(seen_positives);
  batch.negative_offset.push_back(seen_negatives);
  const auto slot = slot_.begin();
  batch.head_slot.assign(slot, slot + positives);
  batch.tail_slot.assign(slot + positives, slot + 2 * positives);
  batch.negative_slot.assign(slot + 2 * positives, slot + occurrences);

  keys_.clear();
  append(batch.relation, relations_, "relation");
  sort(relation_bits);
  batch.relations.clear();
  batch.relation_offset.clear();
  batch.relation_occurrence.clear();
  batch.relation_slot.resize(positives);
  for (const std::uint64_t key : keys_) {
    const auto id = static_cast<std::int64_t>(key >> occurrence_bits_);
    const std::size_t edge = key & mask;
    if (batch.relations.empty() || batch.relations.back() != id) {
      batch.relations.push_back(id);
      batch.relation_offset.push_back(static_cast<std::int32_t>(batch.relation_occurrence.size()));
    }
    batch.relation_slot[edge] = static_cast<std::int32_t>(batch.relations.size()) - 1;
    batch.relation_occurrence.push_back(static_cast<std::int32_t>(edge));
  }
  batch.relation_offset.push_back(static_cast<std::int32_t>(positives));
}

}  // namespace frugal
