// Independent pieces of work, taken by whichever thread is free.
//
// Which thread does a piece must not matter: pieces write to disjoint places, and sums over pieces are made afterwards.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/parallel/thread_pool.h"

namespace frugal {

// Calls body(task, worker) once for each task in [0, count).
template <typename Body>
void for_tasks(ThreadPool& pool, std::int64_t count, Body body) {
  std::atomic<std::int64_t> next{0};
  pool.run([&](int worker) {
    for (std::int64_t task; (task = next.fetch_add(1, std::memory_order_relaxed)) < count;) body(task, worker);
  });
}

}  // namespace frugal
