#include "base/parallel/background.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <future>
#include <stdexcept>
#include <vector>

namespace frugal {
namespace {

TEST(Background, RunsAllThatItIsGivenAndSaysWhatWentWrong) {
  std::vector<int> found(1000);
  std::vector<std::future<void>> done;
  for (std::size_t i = 0; i < found.size(); ++i)
    done.push_back(run_in_background([&found, i] {
      found[i] = static_cast<int>(i);
      if (i % 7 == 0) throw std::runtime_error("seven");
    }));
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (i % 7 == 0)
      EXPECT_THROW(done[i].get(), std::runtime_error);
    else
      done[i].get();
    EXPECT_EQ(found[i], static_cast<int>(i));
  }
}

TEST(Background, WorksOnSeveralAtOnce) {
  std::promise<void> second_runs;
  auto first = run_in_background([&] { second_runs.get_future().wait_for(std::chrono::seconds(60)); });
  run_in_background([&] { second_runs.set_value(); }).get();  // not behind the first
  first.get();
}

TEST(Background, WorksInAForkedProcess) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer starts no threads in a forked process";
#endif
  run_in_background([] {}).get();
  const pid_t child = fork();
  if (child == 0) {
    run_in_background([] {}).get();
    _exit(0);
  }
  int status = 1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// More pieces of work at a time than there are threads, each of which shares tasks: all of them once.
TEST(Background, SharesTasksOfItsWork) {
  static constexpr std::int64_t kTasks = 40;
  std::vector<std::atomic<int>> times(60 * kTasks);
  std::vector<std::future<void>> done;
  for (std::int64_t work = 0; work < std::ssize(times) / kTasks; ++work)
    done.push_back(run_in_background([&times, work] {
      std::atomic<int> mine{0};
      share_in_background(kTasks, [&](std::int64_t task) {
        times[static_cast<std::size_t>(work * kTasks + task)].fetch_add(1);
        mine.fetch_add(1);
      });
      EXPECT_EQ(mine.load(), std::int64_t{kTasks});  // all have returned
      share_in_background(0, [](std::int64_t) { FAIL(); });
    }));
  for (auto& each : done) each.get();
  for (const auto& each : times) EXPECT_EQ(each.load(), 1);
}

}  // namespace
}  // namespace frugal
