// The counts of a plan, for the rank that runs it: taken when it is made, while its arrays are in the processor's
// cache.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/plan.h"

namespace frugal {

// Whether row i of a plan stays in the write-back buffer. Without a branch on the data.
inline bool stays_in_buffer(const StepPlan& plan, std::size_t i, std::int64_t cache_slots) {
  return (plan.leave[i] == RowDestination::kCache) & (plan.target[i] > cache_slots);
}

// Whether it is read in the cache.
inline bool is_hit(const StepPlan& plan, std::size_t i, std::int32_t cache_slots) {
  return (plan.source[i] >= 0) & (plan.source[i] < cache_slots);
}

// Its rows that are read in the cache, and in the write-back buffer; that stay on the device, and of them
// those in the buffer; that leave as gradients; and rows that it evicts from the cache.
struct StepCounts {
  std::int64_t hits, buffered, kept, staying, gradients, evicted;

  // Of rows [begin, end).
  static StepCounts of(const StepPlan& plan, std::int64_t cache_slots, std::int64_t begin, std::int64_t end) {
    // In 32 bits, of which compilers make the fastest code.
    const auto count = [first = static_cast<std::size_t>(begin), last = static_cast<std::size_t>(end)](auto wanted) {
      std::uint32_t found = 0;
      for (std::size_t i = first; i < last; ++i) found += wanted(i);
      return static_cast<std::int64_t>(found);
    };
    const auto slots = static_cast<std::int32_t>(cache_slots);
    return {count([&](std::size_t i) { return is_hit(plan, i, slots); }),
            count([&](std::size_t i) { return plan.source[i] > slots; }),
            count([&](std::size_t i) { return plan.leave[i] == RowDestination::kCache; }),
            count([&](std::size_t i) { return stays_in_buffer(plan, i, cache_slots); }),
            count([&](std::size_t i) { return plan.leave[i] == RowDestination::kGradient; }),
            plan.evicted.empty() ? 0 : count([&](std::size_t i) { return plan.evicted[i] >= 0; })};
  }

  StepCounts& operator+=(const StepCounts& other) {
    hits += other.hits, buffered += other.buffered, kept += other.kept, staying += other.staying;
    gradients += other.gradients, evicted += other.evicted;
    return *this;
  }
};

}  // namespace frugal
