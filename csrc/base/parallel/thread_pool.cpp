#include "base/parallel/thread_pool.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <exception>
#include <stdexcept>
#include <utility>

#include "base/parallel/spin.h"
#include "base/parallel/start_thread.h"

namespace frugal {
namespace {

std::mutex pool_mutex;
std::shared_ptr<ThreadPool> pool;  // guarded by pool_mutex

// A forked child has the pool's memory but none of its threads: let go of it (a destructor would join nobody).
[[maybe_unused]] const int at_fork = pthread_atfork(
    [] { pool_mutex.lock(); }, [] { pool_mutex.unlock(); },
    [] {
      new std::shared_ptr<ThreadPool>(std::move(pool));
      pool_mutex.unlock();
    });

}  // namespace

int usable_cores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1u, std::thread::hardware_concurrency());
}

ThreadPool::ThreadPool(int threads) {
  if (threads < 1) throw std::invalid_argument("a thread pool needs at least one thread");
  workers_.reserve(threads - 1);
  start_threads(workers_, threads - 1, [this](int i) { work(i + 1); }, [this] { stop(); });
}

ThreadPool::~ThreadPool() { stop(); }

void ThreadPool::stop() {
  stopping_.store(true, std::memory_order_relaxed);
  epoch_.fetch_add(1, std::memory_order_release);
  epoch_.notify_all();
  for (auto& worker : workers_) worker.join();
}

void ThreadPool::execute(int worker) noexcept {
  try {
    (*body_)(worker);
  } catch (...) {
    const std::lock_guard lock(error_mutex_);
    if (!error_) error_ = std::current_exception();
  }
}

void ThreadPool::work(int worker) {
  for (std::uint64_t seen = 0;;) {
    wait_while_equal(epoch_, seen);
    ++seen;  // run waits for every worker, so no epoch is ever skipped
    if (stopping_.load(std::memory_order_relaxed)) return;
    execute(worker);
    if (unfinished_.fetch_sub(1, std::memory_order_acq_rel) == 1) unfinished_.notify_one();
  }
}

void ThreadPool::run(const std::function<void(int)>& body) {
  const std::lock_guard lock(callers_);
  body_ = &body;
  unfinished_.store(static_cast<int>(workers_.size()), std::memory_order_relaxed);
  epoch_.fetch_add(1, std::memory_order_release);
  epoch_.notify_all();
  execute(0);
  for (int left; (left = unfinished_.load(std::memory_order_acquire)) != 0;) wait_while_equal(unfinished_, left);
  body_ = nullptr;
  const std::lock_guard error_lock(error_mutex_);
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void ThreadPool::parallel_for(std::int64_t count, std::int64_t grain,
                              const std::function<void(std::int64_t, std::int64_t)>& body) {
  if (count <= 0) return;
  const std::int64_t parts = std::min<std::int64_t>(threads(), (count + grain - 1) / std::max<std::int64_t>(1, grain));
  if (parts <= 1) return body(0, count);
  run([&](int worker) {
    if (worker >= parts) return;
    const std::int64_t begin = count * worker / parts, end = count * (worker + 1) / parts;
    if (begin < end) body(begin, end);
  });
}

std::shared_ptr<ThreadPool> default_pool() {
  const std::lock_guard lock(pool_mutex);
  if (!pool) pool = std::make_shared<ThreadPool>(usable_cores());
  return pool;
}

void set_num_threads(int threads) {
  auto replacement = std::make_shared<ThreadPool>(threads);
  const std::lock_guard lock(pool_mutex);
  pool.swap(replacement);
}

int num_threads() { return default_pool()->threads(); }

}  // namespace frugal
