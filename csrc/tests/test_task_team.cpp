#include "parallel/task_team.h"

#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>

namespace frugal {
namespace {

TEST(TaskTeam, RunsEachTaskOnce) {
  for (const int threads : {1, 2, 5}) {
    TaskTeam team(threads);
    for (int run = 0; run < 3000; ++run) {
      const std::int64_t tasks = run % 23;  // also none, and fewer than threads
      std::vector<int> runs(static_cast<std::size_t>(tasks));
      team.run(tasks, [&](std::int64_t i) { ++runs[static_cast<std::size_t>(i)]; });  // seen here without atomics
      for (const int count : runs) ASSERT_EQ(count, 1);
    }
  }
}

TEST(TaskTeam, HelpersTakeTasksWhileTheCallerIsBusy) {
  TaskTeam team(2);
  std::atomic<int> begun{0};
  team.run(2, [&](std::int64_t) {
    ++begun;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (begun < 2 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    EXPECT_EQ(begun, 2);  // by two threads at once, or never
  });
}

TEST(TaskTeam, RefusesWhatItCannotDo) {
  EXPECT_THROW(TaskTeam(0), std::invalid_argument);
  TaskTeam team(1);
  EXPECT_THROW(team.run(TaskTeam::kMostTasks + 1, [](std::int64_t) {}), std::invalid_argument);
}

}  // namespace
}  // namespace frugal
