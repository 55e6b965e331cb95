// All that a step on a device is told, as one block of memory: packed on the host, taken there by one copy.
//
// Where a field lies depends on sizes alone, so that a captured graph finds it at the same place in every step. The
// rows of a table are padded to a fixed number: a row that only pads has no gradient, and is read from, and written to,
// a place that nobody else uses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/plan.h"
#include "sampler/batch.h"
#include "step/cuda/gradient_kernels.h"

namespace frugal {

// Sizes of a batch that do not change from step to step.
struct BatchSizes {
  std::int64_t positives, chunk_size, negatives_per_chunk;
  bool weighted;

  std::int64_t negatives() const { return positives / chunk_size * negatives_per_chunk; }
  bool operator==(const BatchSizes&) const = default;
};

// The rows of one table.
struct BlockTable {
  std::string name;
  std::int64_t rows;     // of a step, at most: after padding exactly
  std::int64_t scratch;  // where padding is read from and written to: a row of the table, or with a plan a cache slot
  bool planned;          // whether a plan says where rows are; else the table lies on the device and its ids are enough
};

// The plan of one table for the step that is packed. published: what the engine's counter says once the step is done.
struct TablePlan {
  StepPlan plan;
  std::int64_t published = 0;
};

class StepBlock {
 public:
  // One array of the block.
  struct Field {
    std::string name;
    const char* dtype;  // as NumPy writes it
    std::size_t begin;  // in bytes
    std::int64_t length;
  };

  // tables: entities, relations, and if there are any projections. Throws std::invalid_argument for sizes of no batch.
  StepBlock(const BatchSizes& sizes, std::vector<BlockTable> tables);

  const BatchSizes& sizes() const { return sizes_; }
  const std::vector<BlockTable>& tables() const { return tables_; }
  const std::vector<Field>& fields() const { return fields_; }
  std::size_t bytes() const { return bytes_; }

  // plans: one per table, in order; of tables without a plan they are not looked at. Throws std::invalid_argument, with
  // nothing written, for a batch of other sizes, rows that have no room, or a plan of other rows than the batch's.
  void pack(const Batch& batch, std::span<const TablePlan> plans, std::byte* block) const;

  // The batch in a packed block, wherever that lies.
  cuda::DeviceBatch batch(bool corrupt_head, const std::byte* block) const;

 private:
  struct TableFields {
    std::size_t rows, source, leave, target, published;
  };

  template <typename T>
  std::size_t add(std::string name, std::int64_t length);

  const BatchSizes sizes_;
  const std::vector<BlockTable> tables_;
  std::vector<Field> fields_;
  std::size_t bytes_ = 0;
  std::size_t counts_, step_, head_slot_, tail_slot_, relation_slot_, negative_slot_, positive_offset_,
      positive_occurrence_, negative_offset_, negative_occurrence_, relation_offset_, relation_occurrence_, sum_offset_,
      sum_order_, weight_;
  std::vector<TableFields> table_fields_;
};

}  // namespace frugal
