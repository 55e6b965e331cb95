#include "base/parallel/background.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>

#include "base/parallel/spin.h"
#include "base/parallel/start_thread.h"
#include "base/parallel/thread_pool.h"

namespace frugal {
namespace {

// A lookup of a million ids takes longer to sort than the steps that it is announced ahead of.
const std::size_t kMostThreads = static_cast<std::size_t>(std::clamp(usable_cores() / 2, 4, 32));

// How long a thread without work looks for more before it sleeps: to wake it takes a system call, in each step of a
// training. Where cores are few, it looks once, since they have other work.
const auto kLooks = std::chrono::microseconds(usable_cores() < 16 ? 0 : 1000);

class Background {
 public:
  bool is_of_this_process() const { return process_ == getpid(); }

  // Threads that have nothing to do, or could be started.
  std::size_t to_be_had() {
    const std::lock_guard lock(mutex_);
    const std::size_t busy = threads_ - idle_ + tasks_.size();
    return busy < kMostThreads ? kMostThreads - busy : 0;
  }

  std::future<void> run(std::function<void()> work) {
    std::packaged_task<void()> task(std::move(work));
    auto done = task.get_future();
    {
      const std::lock_guard lock(mutex_);
      if (idle_ <= tasks_.size() && threads_ < kMostThreads) start();
      tasks_.push_back(std::move(task));
      given_count_.store(given_count_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
      if (looking_ >= tasks_.size()) return done;  // they take it without being woken
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
      look(lock);
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

  // Returns when there is a task, or after kLooks.
  void look(std::unique_lock<std::mutex>& lock) {
    const auto until = std::chrono::steady_clock::now() + kLooks;
    ++looking_;
    for (bool looks = true; looks && tasks_.empty();) {
      const std::uint64_t seen = given_count_.load(std::memory_order_relaxed);
      lock.unlock();
      do {
        spin_pause();
        looks = std::chrono::steady_clock::now() < until;
      } while (looks && given_count_.load(std::memory_order_acquire) == seen);
      lock.lock();
    }
    --looking_;
  }

  const pid_t process_ = getpid();
  std::mutex mutex_;
  std::condition_variable given_;
  std::deque<std::packaged_task<void()>> tasks_;
  std::size_t threads_ = 0;
  std::size_t idle_ = 0;                       // threads without a task, looking or asleep
  std::size_t looking_ = 0;                    // threads in look()
  std::atomic<std::uint64_t> given_count_{0};  // tasks since the process began
};

// Of this process.
Background& background() {
  static std::mutex mutex;
  static Background* background = nullptr;  // never deleted: its threads end with their process
  const std::lock_guard lock(mutex);
  if (background == nullptr || !background->is_of_this_process()) background = new Background;
  return *background;
}

struct Shared {
  std::function<void(std::int64_t)> task;
  std::int64_t tasks;
  std::atomic<std::int64_t> next{0}, done{0};

  void work() {
    for (std::int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < tasks;) {
      task(i);
      if (done.fetch_add(1, std::memory_order_acq_rel) + 1 == tasks) done.notify_one();
    }
  }
};

}  // namespace

std::future<void> run_in_background(std::function<void()> work) { return background().run(std::move(work)); }

void share_in_background(std::int64_t tasks, const std::function<void(std::int64_t)>& task) {
  if (tasks <= 1) {
    if (tasks == 1) task(0);
    return;
  }
  const auto shared = std::make_shared<Shared>();  // who comes late finds nothing left, when this call has returned
  shared->task = task;
  shared->tasks = tasks;
  try {
    const auto helpers = std::min(background().to_be_had(), static_cast<std::size_t>(tasks - 1));
    for (std::size_t i = 0; i < helpers; ++i) background().run([shared] { shared->work(); });
  } catch (const ThreadShortage&) {  // this one does it alone
  }
  shared->work();
  for (std::int64_t done; (done = shared->done.load(std::memory_order_acquire)) != tasks;)
    wait_while_equal(shared->done, done);
}

}  // namespace frugal
