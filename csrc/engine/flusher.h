// A thread that writes records back: each flush worker is one, and in mode off a single one that keeps their order.
#pragma once

#include <atomic>
#include <cstdint>

#include "engine/p2f/inbox.h"

namespace frugal {

// Written by the flusher's thread, read by anyone (relaxed: numbers for reports).
struct FlushCounters {
  std::atomic<std::int64_t> values{0}, gradients{0}, bytes{0}, queue_operations{0}, live_records{0}, memory{0};
};

// For a counter with one writer: no locked instruction.
inline void add(std::atomic<std::int64_t>& counter, std::int64_t amount) {
  counter.store(counter.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
}

class Flusher {
 public:
  virtual ~Flusher() = default;
  virtual Inbox& inbox() = 0;
  // The flusher's thread: until `stopping`, or until the engine fails.
  virtual void run(const std::atomic<bool>& stopping) = 0;
  virtual const FlushCounters& counters() const = 0;
};

}  // namespace frugal
