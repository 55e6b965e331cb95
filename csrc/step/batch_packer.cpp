#include "step/batch_packer.h"

#include <mutex>
#include <vector>

namespace frugal {

struct BatchPacker::Blocks {
  std::mutex mutex;
  std::vector<std::int64_t> free;  // guarded by mutex
};

struct BatchPacker::Block {
  std::shared_ptr<Blocks> blocks;
  std::int64_t number;

  ~Block() {
    const std::lock_guard lock(blocks->mutex);
    blocks->free.push_back(number);
  }
};

BatchPacker::BatchPacker(const StepBlock& layout, std::byte* memory, std::int64_t blocks)
    : layout_(layout), memory_(memory), blocks_(std::make_shared<Blocks>()) {
  for (std::int64_t number = 0; number < blocks; ++number) blocks_->free.push_back(number);
}

std::shared_ptr<void> BatchPacker::pack(const Batch& batch) {
  if (!layout_.fits(batch)) return nullptr;
  std::shared_ptr<Block> block;
  {
    const std::lock_guard lock(blocks_->mutex);
    if (blocks_->free.empty()) return nullptr;
    block = std::make_shared<Block>(blocks_, blocks_->free.back());
    blocks_->free.pop_back();
  }
  layout_.pack(batch, memory_ + static_cast<std::size_t>(block->number) * layout_.bytes());
  return block;
}

std::int64_t BatchPacker::block_of(const Batch& batch) const {
  const auto* const block = static_cast<const Block*>(batch.packed.get());
  return block != nullptr && block->blocks == blocks_ ? block->number : -1;
}

}  // namespace frugal
