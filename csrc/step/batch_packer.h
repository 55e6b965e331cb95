// Batches that are packed as blocks (step_block.h) when they are made, by the threads that make them, in memory that a
// device copies from: the thread that runs the steps then has nothing of them to write.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "sampler/batch.h"
#include "step/step_block.h"

namespace frugal {

class BatchPacker {
 public:
  // memory: room for `blocks` blocks of the layout, one behind the other, for as long as batches are packed.
  BatchPacker(const StepBlock& layout, std::byte* memory, std::int64_t blocks);

  // For Batch::packed: a block that holds the batch, and is not used again before the last copy of the pointer is gone.
  // nullptr if the batch has other sizes than the layout, or no block is free. Any thread may call it. Throws
  // std::invalid_argument as StepBlock::pack does.
  std::shared_ptr<void> pack(const Batch& batch);
  // The number of the block that the batch is packed in by this packer; -1 if it is in none.
  std::int64_t block_of(const Batch& batch) const;

 private:
  struct Blocks;
  struct Block;

  const StepBlock layout_;
  std::byte* const memory_;
  const std::shared_ptr<Blocks> blocks_;  // which are free; outlives this as long as a block is used
};

}  // namespace frugal
