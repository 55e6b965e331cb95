#include "base/parallel/background.h"

#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>

#include "base/parallel/start_thread.h"
#include "base/parallel/thread_pool.h"

namespace frugal {
namespace {

// A lookup of a million ids is sorted by one thread, in longer than a step that it is announced ahead of.
const std::size_t kMostThreads = static_cast<std::size_t>(std::clamp(usable_cores() / 2, 4, 8));

class Background {
 public:
  bool is_of_this_process() const { return process_ == getpid(); }

  std::future<void> run(std::function<void()> work) {
    std::packaged_task<void()> task(std::move(work));
    auto done = task.get_future();
    {
      const std::lock_guard lock(mutex_);
      if (idle_ <= tasks_.size() && threads_ < kMostThreads) start();
      tasks_.push_back(std::move(task));
    }
    given_.notify_one();
    return done;
  }

 private:
  void start() {
    try {
      start_thread([this] { work(); }).detach();
      ++threads_;
    } catch (const ThreadShortage&) {
      if (threads_ == 0) throw;
    }
  }

  [[noreturn]] void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      ++idle_;
      given_.wait(lock, [&] { return !tasks_.empty(); });
      --idle_;
      auto task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      task();
      task = {};  // it holds what it works on
      lock.lock();
    }
  }

  const pid_t process_ = getpid();
  std::mutex mutex_;
  std::condition_variable given_;
  std::deque<std::packaged_task<void()>> tasks_;
  std::size_t threads_ = 0;
  std::size_t idle_ = 0;  // of them, that wait for a task
};

}  // namespace

std::future<void> run_in_background(std::function<void()> work) {
  static std::mutex mutex;
  static Background* background = nullptr;  // never deleted: its threads end with their process
  const std::lock_guard lock(mutex);
  if (background == nullptr || !background->is_of_this_process()) background = new Background;
  return background->run(std::move(work));
}

}  // namespace frugal
