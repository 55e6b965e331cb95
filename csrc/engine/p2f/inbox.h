// The planner's message to a flush worker about one step, and the ring of such messages.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "engine/segment.h"

namespace frugal {

// Gradients of one rank for one row in one entry. Listed in canonical order: by entry, then by rank.
struct GradientSource {
  std::int64_t position;  // in the rank's staging
  std::int32_t rank, count, entry;
};

struct Operation {
  enum class Kind : std::uint8_t {
    kRead,       // the step reads the row from host: its last record is due at the step
    kValue,      // a record: the row's new value from `rank`
    kGradient,   // a record: gradients of all its ranks, `sources` of them from `first_source`
    kWriteBack,  // a record: the cached value of `rank`, its `sequence`-th request
  };
  Kind kind;
  std::int32_t rank = 0;
  std::int64_t row = 0;
  std::int64_t due = 0;       // of a record, as known when it is planned
  std::int64_t position = 0;  // of a value in the rank's staging
  std::uint64_t sequence = 0;
  std::uint32_t first_source = 0, sources = 0;
};

// Everything that step `step` means for one flush worker. Operations of a row are in their order; write-backs come
// before them.
struct StepOperations {
  std::int64_t step = -1;
  std::vector<Operation> write_backs, operations;
  std::vector<GradientSource> sources;

  void clear(std::int64_t for_step) {
    step = for_step;
    write_backs.clear();
    operations.clear();
    sources.clear();
  }
};

// A ring from the planner to one flush worker; cells keep their memory.
class Inbox {
 public:
  explicit Inbox(std::int64_t cells) : cells_(static_cast<std::size_t>(cells)) {}

  // Planner. next() may be filled when there is room; post() hands it over.
  bool has_room() const {
    return posted_.load(std::memory_order_relaxed) - taken_.load(std::memory_order_acquire) < cells_.size();
  }
  StepOperations& next() { return cells_[posted_.load(std::memory_order_relaxed) % cells_.size()]; }
  void post() { posted_.fetch_add(1, std::memory_order_release); }

  // Flush worker. The oldest cell, or nullptr; it stays valid until pop().
  const StepOperations* front() const {
    const std::uint64_t taken = taken_.load(std::memory_order_relaxed);
    return posted_.load(std::memory_order_acquire) == taken ? nullptr : &cells_[taken % cells_.size()];
  }
  void pop() { taken_.fetch_add(1, std::memory_order_release); }

 private:
  std::vector<StepOperations> cells_;  // each the planner's until post(), then the flush worker's until pop()
  alignas(128) std::atomic<std::uint64_t> posted_{0};
  alignas(128) std::atomic<std::uint64_t> taken_{0};
};

}  // namespace frugal
