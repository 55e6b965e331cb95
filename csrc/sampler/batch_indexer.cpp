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

// Counters of a digit stay in the first-level cache: 8 KiB, or 32 where keys are so many that a pass less is worth it.
constexpr int kDigitBits = 11, kWideDigitBits = 13;
constexpr std::size_t kManyKeys = 8192;

// Calls each(u, id, occurrence) for the sorted keys, where id is the u-th distinct one: without a branch on the data,
// which nobody could predict.
template <typename Each>
void for_each_key(const std::vector<std::uint64_t>& keys, int occurrence_bits, Each each) {
  const std::uint64_t mask = (std::uint64_t{1} << occurrence_bits) - 1;
  std::int64_t last = -1, u = -1;
  for (const std::uint64_t key : keys) {
    const auto id = static_cast<std::int64_t>(key >> occurrence_bits);
    u += id != last;
    last = id;
    each(u, id, static_cast<std::int32_t>(key & mask));
  }
}

std::size_t distinct_ids(const std::vector<std::uint64_t>& keys, int occurrence_bits) {
  std::size_t distinct = !keys.empty();
  for (std::size_t k = 1; k < keys.size(); ++k)
    distinct += keys[k] >> occurrence_bits != keys[k - 1] >> occurrence_bits;
  return distinct;
}

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
  const int digit_bits = keys_.size() < kManyKeys ? kDigitBits : kWideDigitBits;
  const int passes = (id_bits + digit_bits - 1) / digit_bits;
  spare_.resize(keys_.size());
  for (int pass = 0; pass < passes; ++pass) {
    const int low = id_bits * pass / passes, bits = id_bits * (pass + 1) / passes - low;
    const int shift = occurrence_bits_ + low;
    const std::uint64_t mask = (std::uint64_t{1} << bits) - 1;
    std::array<std::uint32_t, 1 << kWideDigitBits> begin;
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

  const std::size_t rows = distinct_ids(keys_, occurrence_bits_);
  batch.entities.resize(rows);
  batch.positive_offset.resize(rows + 1);
  batch.negative_offset.resize(rows + 1);
  batch.positive_occurrence.resize(2 * positives + 1);  // the last ones are written when all are there
  batch.negative_occurrence.resize(negatives + 1);
  slot_.resize(occurrences);
  const auto first_negative = static_cast<std::int32_t>(2 * positives);
  std::int32_t seen_positives = 0, seen_negatives = 0;
  batch.positive_offset[0] = batch.negative_offset[0] = 0;
  for_each_key(keys_, occurrence_bits_, [&](std::int64_t u, std::int64_t id, std::int32_t occurrence) {
    batch.entities[u] = id;
    slot_[occurrence] = static_cast<std::int32_t>(u);
    const bool positive = occurrence < first_negative;
    batch.positive_occurrence[seen_positives] = occurrence;
    batch.negative_occurrence[seen_negatives] = occurrence - first_negative;
    batch.positive_offset[u + 1] = seen_positives += positive;
    batch.negative_offset[u + 1] = seen_negatives += !positive;
  });
  batch.positive_occurrence.resize(2 * positives);
  batch.negative_occurrence.resize(negatives);
  const auto slot = slot_.begin();
  batch.head_slot.assign(slot, slot + positives);
  batch.tail_slot.assign(slot + positives, slot + 2 * positives);
  batch.negative_slot.assign(slot + 2 * positives, slot + occurrences);

  keys_.clear();
  append(batch.relation, relations_, "relation");
  sort(relation_bits);
  const std::size_t relations = distinct_ids(keys_, occurrence_bits_);
  batch.relations.resize(relations);
  batch.relation_offset.resize(relations + 1);
  batch.relation_occurrence.resize(positives);
  batch.relation_slot.resize(positives);
  batch.relation_offset[0] = 0;
  std::int32_t seen = 0;
  for_each_key(keys_, occurrence_bits_, [&](std::int64_t r, std::int64_t id, std::int32_t edge) {
    batch.relations[r] = id;
    batch.relation_slot[edge] = static_cast<std::int32_t>(r);
    batch.relation_occurrence[seen] = edge;
    batch.relation_offset[r + 1] = ++seen;
  });
}

}  // namespace frugal
