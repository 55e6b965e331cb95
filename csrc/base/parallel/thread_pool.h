// A fixed set of threads for data-parallel loops.
//
// Our own instead of OpenMP because the extension must not load a second OpenMP runtime inside PyTorch's process, and
// because the thread sanitizer understands it. Work is split statically by index, so that a result that depends on the
// split only through disjoint writes is the same for every number of threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace frugal {

// Rows of a table in a range of their own, at least: below this a second thread costs more than it saves.
inline constexpr std::int64_t kRowsPerTask = 64;

class ThreadPool {
 public:
  // threads >= 1, the calling thread included. Throws ThreadShortage (base/parallel/start_thread.h), with none left
  // running.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls body(worker) once for each worker in [0, threads()); returns when all have returned. The first exception is
  // rethrown here. One caller at a time (others wait); body must not call run on the same pool.
  void run(const std::function<void(int worker)>& body);

  // Splits [0, count) into contiguous ranges of about `grain` or more and calls body(begin, end) for each, in parallel.
  void parallel_for(std::int64_t count, std::int64_t grain,
                    const std::function<void(std::int64_t begin, std::int64_t end)>& body);

 private:
  void stop();
  void work(int worker);
  void execute(int worker) noexcept;

  std::vector<std::thread> workers_;
  std::mutex callers_;                                    // one run at a time
  const std::function<void(int)>* body_ = nullptr;  // written before epoch_ is released, read after it is acquired
  std::atomic<std::uint64_t> epoch_{0};                   // one more per run; workers wait on it
  std::atomic<int> unfinished_{0};                        // workers still in the current run
  std::atomic<bool> stopping_{false};
  std::mutex error_mutex_;
  std::exception_ptr error_;                              // guarded by error_mutex_
};

// The pool of all that is given none. Sized by set_num_threads, at first by the cores this process may use. Kernels of
// other threads keep the pool that they began with.
std::shared_ptr<ThreadPool> default_pool();
void set_num_threads(int threads);  // throws std::invalid_argument if threads < 1
int num_threads();

// Cores that this process may use, at least 1.
int usable_cores();

}  // namespace frugal
