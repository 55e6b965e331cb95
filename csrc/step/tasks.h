// Independent pieces of work, shared out among threads.
//
// Which thread does a piece must not matter: pieces write to disjoint places, and sums over pieces are made afterwards.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "base/parallel/thread_pool.h"

namespace frugal {

// Calls body(task, worker) once for each task in [0, count). Each worker begins with a part of the tasks that is the
// same for the same count, so that it finds what it left in its cache, and then helps the others.
template <typename Body>
void for_tasks(ThreadPool& pool, std::int64_t count, Body body) {
  struct alignas(64) Part {
    std::atomic<std::int64_t> next;
    std::int64_t end;
  };
  const int workers = pool.threads();
  std::vector<Part> parts(static_cast<std::size_t>(workers));
  for (int worker = 0; worker < workers; ++worker) {
    parts[worker].next.store(count * worker / workers, std::memory_order_relaxed);
    parts[worker].end = count * (worker + 1) / workers;
  }
  pool.run([&](int worker) {
    for (int other = 0; other < workers; ++other) {
      Part& part = parts[(worker + other) % workers];
      for (std::int64_t task; (task = part.next.fetch_add(1, std::memory_order_relaxed)) < part.end;)
        body(task, worker);
    }
  });
}

}  // namespace frugal
