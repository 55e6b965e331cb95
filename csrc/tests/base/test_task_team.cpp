#include "base/parallel/task_team.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <stdexcept>

#include "base/parallel/start_thread.h"
#include "tests/room.h"

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

#if !defined(FRUGAL_SANITIZED)
// Ends this process: 0 if a team for whose threads there is no room is refused, and the threads that have begun end.
[[noreturn]] void make_a_team_without_room() {
  leave_room(100 << 20);  // for some threads' stacks
  try {
    const TaskTeam team(1000);
  } catch (const ThreadShortage&) {
    _exit(0);
  }
  _exit(1);
}

TEST(TaskTeamDeathTest, ThreadsThatCannotBeHadAreAnError) {
  EXPECT_EXIT(make_a_team_without_room(), testing::ExitedWithCode(0), "");
}
#endif

}  // namespace
}  // namespace frugal
