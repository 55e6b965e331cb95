#include "base/parallel/callers_threads.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>
#include <vector>

#include "base/parallel/thread_pool.h"

namespace frugal {
namespace {

int teams = 0;

// A team of three, as an OpenMP runtime gives it.
void run_in_team(void (*body)(void*), void* data, unsigned threads, unsigned) {
  EXPECT_EQ(threads, 0u);
  ++teams;
  std::thread others[] = {std::thread(body, data), std::thread(body, data)};
  body(data);
  for (std::thread& other : others) other.join();
}

class CallersThreads : public testing::TestWithParam<RunInTeam> {
 protected:
  CallersThreads() { borrow_threads(GetParam()); }
  ~CallersThreads() override { borrow_threads(nullptr); }
};

TEST_P(CallersThreads, RunEachTaskOnce) {
  for (std::int64_t tasks = 0; tasks < 40; ++tasks) {
    std::vector<int> runs(static_cast<std::size_t>(tasks));
    run_tasks(tasks, [&](std::int64_t i) { ++runs[static_cast<std::size_t>(i)]; });  // seen here without atomics
    for (const int count : runs) ASSERT_EQ(count, 1);
  }
}

TEST_P(CallersThreads, RangesCoverAll) {
  for (std::int64_t count = 0; count < 40; ++count) {
    std::vector<int> runs(static_cast<std::size_t>(count));
    run_ranges(count, 7, [&](std::int64_t begin, std::int64_t end) {
      ASSERT_LT(begin, end);
      for (; begin < end; ++begin) ++runs[static_cast<std::size_t>(begin)];
    });
    for (const int each : runs) ASSERT_EQ(each, 1);
  }
}

TEST_P(CallersThreads, HandOnAnException) {
  EXPECT_THROW(run_tasks(30, [](std::int64_t i) { if (i == 17) throw std::runtime_error("17"); }), std::runtime_error);
  EXPECT_THROW(run_tasks(1, [](std::int64_t) { throw std::runtime_error("alone"); }), std::runtime_error);
  int runs = 0;
  run_tasks(1, [&](std::int64_t) { ++runs; });
  EXPECT_EQ(runs, 1);
}

INSTANTIATE_TEST_SUITE_P(Teams, CallersThreads, testing::Values(RunInTeam{nullptr}, &run_in_team));

TEST(BorrowedThreads, OneTaskWakesNobody) {
  borrow_threads(&run_in_team);
  teams = 0;
  run_tasks(1, [](std::int64_t) {});
  EXPECT_EQ(teams, 0);
  run_tasks(2, [](std::int64_t) {});
  EXPECT_EQ(teams, 1);
  borrow_threads(nullptr);
}

}  // namespace
}  // namespace frugal
