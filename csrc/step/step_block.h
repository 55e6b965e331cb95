// The batch of a step on a device, as one block of memory: packed on the host, taken there by one copy.
// Where rows are read and written comes apart, if somebody plans that: as the planner has written it (engine/plan.h).
//
// Where a field lies depends on sizes alone, so that a captured graph finds it at the same place in every step. The
// rows of a table are padded to a fixed number: a row that only pads has no gradient, and is read from, and written to,
// a place that nobody else uses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

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
  std::int64_t scratch;  // the row where padding is read from and written to
  bool planned;          // whether a plan says where rows are; else the table lies on the device, and the block says
                         // which they are
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

  bool fits(const Batch& batch) const;  // whether it has these sizes
  // Throws std::invalid_argument, with nothing written, for a batch of other sizes, or rows that have no room.
  void pack(const Batch& batch, std::byte* block) const;

  // The batch in a packed block, wherever that lies.
  cuda::DeviceBatch batch(bool corrupt_head, const std::byte* block) const;

 private:
  template <typename T>
  std::size_t add(std::string name, std::int64_t length);

  const BatchSizes sizes_;
  const std::vector<BlockTable> tables_;
  std::vector<Field> fields_;
  std::size_t bytes_ = 0;
  std::size_t counts_, step_, head_slot_, tail_slot_, relation_slot_, negative_slot_, positive_offset_,
      positive_occurrence_, negative_offset_, negative_occurrence_, relation_offset_, relation_occurrence_, sum_offset_,
      sum_order_, entity_busy_, relation_busy_, weight_;
  std::vector<std::size_t> rows_;  // by table
};

}  // namespace frugal
