#include "base/parallel/callers_threads.h"

#include <algorithm>
#include <atomic>
#include <exception>

#include "base/parallel/thread_pool.h"

namespace frugal {
namespace {

std::atomic<RunInTeam> borrowed{nullptr};

struct Tasks {
  const std::function<void(std::int64_t)>& task;
  const std::int64_t count;
  std::atomic<std::int64_t> next{0};
  std::atomic<bool> failed{false};
  std::exception_ptr error{};  // written by who sets `failed`, read when all have returned

  void work() noexcept {
    try {
      for (std::int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < count;) task(i);
    } catch (...) {
      if (!failed.exchange(true)) error = std::current_exception();
    }
  }
};

}  // namespace

void borrow_threads(RunInTeam run) { borrowed.store(run, std::memory_order_relaxed); }

void run_tasks(std::int64_t tasks, const std::function<void(std::int64_t)>& task) {
  if (tasks <= 1) {
    if (tasks == 1) task(0);
    return;
  }
  Tasks all{task, tasks};
  if (const RunInTeam run = borrowed.load(std::memory_order_relaxed))
    run([](void* data) { static_cast<Tasks*>(data)->work(); }, &all, 0, 0);
  else
    default_pool()->run([&](int) { all.work(); });
  if (all.error) std::rethrow_exception(all.error);
}

void run_ranges(std::int64_t count, std::int64_t grain,
                const std::function<void(std::int64_t, std::int64_t)>& body) {
  run_tasks((count + grain - 1) / grain,
            [&](std::int64_t i) { body(i * grain, std::min(count, (i + 1) * grain)); });
}

}  // namespace frugal
