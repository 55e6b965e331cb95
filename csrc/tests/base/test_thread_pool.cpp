#include "base/parallel/thread_pool.h"

#include <gtest/gtest.h>

#include <numeric>
#include <stdexcept>

namespace frugal {
namespace {

TEST(ThreadPool, RunsTheBodyOncePerWorker) {
  ThreadPool pool(4);
  for (int round = 0; round < 1000; ++round) {
    std::vector<int> calls(pool.threads());
    pool.run([&](int worker) { ++calls[worker]; });
    EXPECT_EQ(calls, std::vector<int>(pool.threads(), 1));
  }
}

TEST(ThreadPool, ParallelForCoversTheRangeOnce) {
  ThreadPool pool(3);
  for (const int count : {0, 1, 2, 3, 127, 4000}) {
    std::vector<int> seen(count);
    pool.parallel_for(count, 2, [&](std::int64_t begin, std::int64_t end) {
      for (auto i = begin; i < end; ++i) ++seen[i];
    });
    EXPECT_EQ(seen, std::vector<int>(count, 1));
  }
}

TEST(ThreadPool, RethrowsAndStaysUsable) {
  ThreadPool pool(4);
  EXPECT_THROW(pool.run([](int worker) { if (worker == 2) throw std::runtime_error("two"); }), std::runtime_error);
  std::atomic<int> calls{0};
  pool.run([&](int) { ++calls; });
  EXPECT_EQ(calls.load(), 4);
}

TEST(ThreadPool, ThatIsReplacedWhileItRunsEndsItsRun) {
  set_num_threads(2);
  std::atomic<int> calls{0};
  default_pool()->run([&](int worker) {
    if (worker == 0) set_num_threads(3);  // as another thread of the process may
    ++calls;
  });
  EXPECT_EQ(calls.load(), 2);
  EXPECT_EQ(num_threads(), 3);
  set_num_threads(usable_cores());
}

TEST(ThreadPool, RefusesZeroThreads) { EXPECT_THROW(ThreadPool(0), std::invalid_argument); }

}  // namespace
}  // namespace frugal
