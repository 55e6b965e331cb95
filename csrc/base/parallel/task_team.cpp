#include "base/parallel/task_team.h"

#include <stdexcept>

#include "base/parallel/spin.h"
#include "base/parallel/start_thread.h"

namespace frugal {
namespace {

constexpr int kTaskBits = 20;
constexpr std::uint64_t kTaskMask = (std::uint64_t{1} << kTaskBits) - 1;

}  // namespace

TaskTeam::TaskTeam(int threads) {
  if (threads < 1) throw std::invalid_argument("a team needs at least one thread");
  start_threads(helpers_, threads - 1, [this](int) { help(); }, [this] { end(); });
}

TaskTeam::~TaskTeam() { end(); }

void TaskTeam::end() {
  stopping_.store(true, std::memory_order_relaxed);
  runs_.fetch_add(1, std::memory_order_release);
  runs_.notify_all();
  for (std::thread& helper : helpers_) helper.join();
}

void TaskTeam::run(std::int64_t tasks, const std::function<void(std::int64_t)>& task) {
  if (tasks <= 0) return;
  if (tasks > kMostTasks) throw std::invalid_argument("too many tasks for a team");
  task_ = &task;
  done_.store(0, std::memory_order_relaxed);
  const std::uint64_t run = (next_.load(std::memory_order_relaxed) >> 2 * kTaskBits) + 1;
  next_.store(run << 2 * kTaskBits | static_cast<std::uint64_t>(tasks) << kTaskBits, std::memory_order_release);
  runs_.fetch_add(1, std::memory_order_release);
  runs_.notify_all();
  work();
  for (std::int64_t done; (done = done_.load(std::memory_order_acquire)) != tasks;) wait_while_equal(done_, done);
}

void TaskTeam::work() {
  for (std::uint64_t next = next_.load(std::memory_order_acquire);;) {
    const std::uint64_t task = next & kTaskMask, tasks = next >> kTaskBits & kTaskMask;
    if (task >= tasks) return;
    if (!next_.compare_exchange_weak(next, next + 1, std::memory_order_acq_rel, std::memory_order_acquire)) continue;
    (*task_)(static_cast<std::int64_t>(task));
    if (done_.fetch_add(1, std::memory_order_acq_rel) + 1 == static_cast<std::int64_t>(tasks)) done_.notify_one();
    next = next_.load(std::memory_order_acquire);
  }
}

void TaskTeam::help() {
  for (std::uint32_t seen = 0;;) {
    wait_while_equal(runs_, seen);
    seen = runs_.load(std::memory_order_acquire);
    if (stopping_.load(std::memory_order_relaxed)) return;
    work();
  }
}

}  // namespace frugal
