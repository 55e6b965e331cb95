#include "step/step_block.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "rows/row_program.h"

namespace frugal {
namespace {

constexpr std::size_t kAlignment = 16;

template <typename T>
constexpr const char* kDtype = nullptr;
template <>
constexpr const char* kDtype<float> = "float32";
template <>
constexpr const char* kDtype<std::int32_t> = "int32";
template <>
constexpr const char* kDtype<std::int64_t> = "int64";

template <typename T>
T* at(std::byte* block, std::size_t begin) {
  return reinterpret_cast<T*>(block + begin);
}

template <typename T>
const T* at(const std::byte* block, std::size_t begin) {
  return reinterpret_cast<const T*>(block + begin);
}

// Copies `values` to `to`, and fills what is left of `length` elements with `rest`.
template <typename From, typename T>
void put(const From& values, std::int64_t length, T rest, T* to) {
  std::fill(std::copy(values.begin(), values.end(), to), to + length, rest);
}

// Writes a list as StepGradients::busy, with zeros where it has room for more rows. count(row): of its occurrences.
template <typename Count>
void list_busy(std::size_t rows, std::int64_t room, std::int32_t* to, Count count) {
  std::vector<std::pair<std::int32_t, std::int32_t>> busy;  // -occurrences, row
  for (std::size_t row = 0; row < rows; ++row)
    if (const std::int32_t occurrences = count(row); occurrences > kFewOccurrences)
      busy.emplace_back(-occurrences, static_cast<std::int32_t>(row));
  std::ranges::sort(busy);
  *to++ = static_cast<std::int32_t>(busy.size());
  std::ranges::transform(busy, to, [](const auto& each) { return each.second; });
  std::fill(to + busy.size(), to + room, 0);
}

const std::vector<std::int64_t>& ids_of(const Batch& batch, std::size_t table) {
  return table == 0 ? batch.entities : batch.relations;
}

}  // namespace

template <typename T>
std::size_t StepBlock::add(std::string name, std::int64_t length) {
  const std::size_t begin = bytes_, size = static_cast<std::size_t>(length) * sizeof(T);
  fields_.push_back({std::move(name), kDtype<T>, begin, length});
  bytes_ += (size + kAlignment - 1) / kAlignment * kAlignment;
  return begin;
}

StepBlock::StepBlock(const BatchSizes& sizes, std::vector<BlockTable> tables)
    : sizes_(sizes), tables_(std::move(tables)) {
  if (sizes.positives < 1 || sizes.chunk_size < 1 || sizes.positives % sizes.chunk_size ||
      sizes.negatives_per_chunk < 0 || tables_.size() < 2 || tables_.size() > 3)
    throw std::invalid_argument("a block is for whole chunks of positives, and two or three tables");
  const std::int64_t positives = sizes.positives, negatives = sizes.negatives();
  const std::int64_t entities = tables_[0].rows, relations = tables_[1].rows;
  counts_ = add<std::int32_t>("counts", 2);
  step_ = add<std::int64_t>("step", 1);
  head_slot_ = add<std::int32_t>("head_slot", positives);
  tail_slot_ = add<std::int32_t>("tail_slot", positives);
  relation_slot_ = add<std::int32_t>("relation_slot", positives);
  negative_slot_ = add<std::int32_t>("negative_slot", negatives);
  positive_offset_ = add<std::int32_t>("positive_offset", entities + 1);
  positive_occurrence_ = add<std::int32_t>("positive_occurrence", 2 * positives);
  negative_offset_ = add<std::int32_t>("negative_offset", entities + 1);
  negative_occurrence_ = add<std::int32_t>("negative_occurrence", negatives);
  relation_offset_ = add<std::int32_t>("relation_offset", relations + 1);
  relation_occurrence_ = add<std::int32_t>("relation_occurrence", positives);
  // The positives' entry has one gradient, their sum, for each row that occurs among them.
  sum_offset_ = add<std::int32_t>("sum_offset", entities + 1);
  sum_order_ = add<std::int32_t>("sum_order", entities);
  // As StepGradients::busy; a busy entity occurs among the negatives at least kFewOccurrences times.
  entity_busy_ = add<std::int32_t>("entity_busy", 1 + negatives / kFewOccurrences);
  relation_busy_ = add<std::int32_t>("relation_busy", 1 + positives / kFewOccurrences);
  weight_ = add<float>("weight", sizes.weighted ? positives : 0);
  for (const BlockTable& table : tables_)
    rows_.push_back(table.planned ? 0 : add<std::int64_t>(table.name + "_rows", table.rows));
}

bool StepBlock::fits(const Batch& batch) const {
  return BatchSizes{batch.positives(), batch.chunk_size, batch.negatives_per_chunk, !batch.weight.empty()} == sizes_;
}

void StepBlock::pack(const Batch& batch, std::byte* block) const {
  if (!fits(batch))
    throw std::invalid_argument("the block is for batches of other sizes");
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    const auto& ids = ids_of(batch, t);
    if (static_cast<std::int64_t>(ids.size()) > tables_[t].rows)
      throw std::invalid_argument("the block has room for " + std::to_string(tables_[t].rows) + " " + tables_[t].name +
                                  " rows, not " + std::to_string(ids.size()));
  }

  const std::int64_t positives = sizes_.positives, negatives = sizes_.negatives();
  const std::int64_t most_entities = tables_[0].rows, most_relations = tables_[1].rows;
  const auto indices = [&](const std::vector<std::int32_t>& values, std::size_t begin, std::int64_t length,
                           std::int32_t rest = 0) { put(values, length, rest, at<std::int32_t>(block, begin)); };
  // Offsets of rows that only pad are those of no occurrence.
  const auto offsets = [&](const std::vector<std::int32_t>& values, std::size_t begin, std::int64_t rows) {
    indices(values, begin, rows + 1, values.back());
  };
  at<std::int32_t>(block, counts_)[0] = static_cast<std::int32_t>(batch.entities.size());
  at<std::int32_t>(block, counts_)[1] = static_cast<std::int32_t>(batch.relations.size());
  *at<std::int64_t>(block, step_) = batch.step;
  indices(batch.head_slot, head_slot_, positives);
  indices(batch.tail_slot, tail_slot_, positives);
  indices(batch.relation_slot, relation_slot_, positives);
  indices(batch.negative_slot, negative_slot_, negatives);
  offsets(batch.positive_offset, positive_offset_, most_entities);
  indices(batch.positive_occurrence, positive_occurrence_, 2 * positives);
  offsets(batch.negative_offset, negative_offset_, most_entities);
  indices(batch.negative_occurrence, negative_occurrence_, negatives);
  offsets(batch.relation_offset, relation_offset_, most_relations);
  indices(batch.relation_occurrence, relation_occurrence_, positives);

  std::int32_t* const sum_offset = at<std::int32_t>(block, sum_offset_);
  std::int32_t* const sum_order = at<std::int32_t>(block, sum_order_);
  const auto entities = static_cast<std::int32_t>(batch.entities.size());
  std::int32_t sums = 0;
  for (std::int32_t u = 0; u < entities; ++u) {
    sum_offset[u] = sums;
    sum_order[sums] = u;  // written over unless the row occurs
    sums += batch.positive_offset[u + 1] > batch.positive_offset[u];
  }
  std::fill(sum_offset + entities, sum_offset + most_entities + 1, sums);
  std::fill(sum_order + sums, sum_order + most_entities, 0);
  list_busy(batch.entities.size(), negatives / kFewOccurrences, at<std::int32_t>(block, entity_busy_),
            [&](std::size_t u) {
              return sum_offset[u + 1] - sum_offset[u] + batch.negative_offset[u + 1] - batch.negative_offset[u];
            });
  list_busy(batch.relations.size(), positives / kFewOccurrences, at<std::int32_t>(block, relation_busy_),
            [&](std::size_t r) { return batch.relation_offset[r + 1] - batch.relation_offset[r]; });
  std::ranges::copy(batch.weight, at<float>(block, weight_));

  for (std::size_t t = 0; t < tables_.size(); ++t) {
    const BlockTable& table = tables_[t];
    if (!table.planned) put(ids_of(batch, t), table.rows, table.scratch, at<std::int64_t>(block, rows_[t]));
  }
}

cuda::DeviceBatch StepBlock::batch(bool corrupt_head, const std::byte* block) const {
  const auto indices = [&](std::size_t begin) { return at<std::int32_t>(block, begin); };
  return {corrupt_head,
          sizes_.positives,
          sizes_.chunk_size,
          sizes_.negatives_per_chunk,
          tables_[0].rows,
          tables_[1].rows,
          indices(counts_),
          indices(head_slot_),
          indices(tail_slot_),
          indices(relation_slot_),
          indices(negative_slot_),
          indices(positive_offset_),
          indices(positive_occurrence_),
          indices(negative_offset_),
          indices(negative_occurrence_),
          indices(relation_offset_),
          sizes_.weighted ? at<float>(block, weight_) : nullptr};
}

}  // namespace frugal
