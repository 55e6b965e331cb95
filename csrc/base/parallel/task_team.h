// Threads that help with small tasks if they have time: the caller works too, and waits for nobody who has not begun.
//
// When to use: work of some ten microseconds, where waiting for a thread to wake, or to get a core, would cost more
// than its share. A ThreadPool splits work evenly and waits for all its threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace frugal {

class TaskTeam {
 public:
  static constexpr std::int64_t kMostTasks = (1 << 20) - 1;

  // threads >= 1, the caller of run included.
  explicit TaskTeam(int threads);
  ~TaskTeam();
  TaskTeam(const TaskTeam&) = delete;
  TaskTeam& operator=(const TaskTeam&) = delete;

  // Calls task(i) once for each i in [0, tasks), tasks <= kMostTasks, and returns when all have returned. One caller at
  // a time. task must not throw.
  void run(std::int64_t tasks, const std::function<void(std::int64_t)>& task);

 private:
  void help();
  void end();
  // Works on the run that `next_` tells of until no task of it is left to begin.
  void work();

  const std::function<void(std::int64_t)>* task_ = nullptr;  // of the current run, which lasts until done_ == its tasks
  // Run, number of tasks, next task: in one word, so that nobody who comes late takes a task of another run.
  alignas(64) std::atomic<std::uint64_t> next_{0};
  alignas(64) std::atomic<std::int64_t> done_{0};
  alignas(64) std::atomic<std::uint32_t> runs_{0};  // helpers sleep on it
  std::atomic<bool> stopping_{false};
  std::vector<std::thread> helpers_;
};

}  // namespace frugal
