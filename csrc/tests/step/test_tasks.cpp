// Every task runs once, whoever is free, and a worker begins with its own part of them.
#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "step/tasks.h"

namespace frugal {
namespace {

TEST(Tasks, EachRunsOnceAndAWorkerBeginsWithItsPart) {
  for (const int threads : {1, 2, 3, 5}) {
    ThreadPool pool(threads);
    for (const std::int64_t count : {0, 1, 4, 5, 64}) {
      std::vector<std::atomic<int>> times(count);
      std::vector<std::vector<std::int64_t>> taken(threads);
      for_tasks(pool, count, [&](std::int64_t task, int worker) {
        ++times[task];
        taken[worker].push_back(task);
      });
      for (const auto& each : times) EXPECT_EQ(each, 1);
      for (int worker = 0; worker < threads; ++worker) {
        const std::int64_t begin = count * worker / threads, end = count * (worker + 1) / threads;
        bool of_others = false;  // none of its own comes after those
        for (const std::int64_t task : taken[worker]) {
          const bool own = begin <= task && task < end;
          EXPECT_FALSE(own && of_others) << threads << " threads, " << count << " tasks: " << task << " of " << worker;
          of_others = of_others || !own;
        }
      }
    }
  }
}

}  // namespace
}  // namespace frugal
