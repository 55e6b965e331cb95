// What flush workers and ranks count.
#pragma once

#include <atomic>
#include <cstdint>

namespace frugal {

// Written by the flush worker's thread, read by anyone (relaxed: numbers for reports).
struct FlushCounters {
  std::atomic<std::int64_t> values{0}, gradients{0}, bytes{0}, memory{0};
};

// For a counter with one writer: no locked instruction.
inline void add(std::atomic<std::int64_t>& counter, std::int64_t amount) {
  counter.store(counter.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
}

}  // namespace frugal
