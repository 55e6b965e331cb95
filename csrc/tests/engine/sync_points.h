// Holds engine threads at named points, so that a test decides how they interleave.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>

#include "engine/testing.h"

namespace frugal::testing {

// Installed while it lives. Must die before the engine does not need its threads: release everything first.
class SyncPoints {
 public:
  SyncPoints() {
    set_sync_points([this](const char* name, std::int64_t detail) { reach({name, detail}); });
  }
  ~SyncPoints() {
    release_all();
    set_sync_points(nullptr);
  }

  // The next thread at this point stays there until release.
  void hold(const std::string& name, std::int64_t detail) {
    const std::lock_guard lock(mutex_);
    held_.insert({name, detail});
  }
  void release(const std::string& name, std::int64_t detail) {
    const std::lock_guard lock(mutex_);
    held_.erase({name, detail});
    changed_.notify_all();
  }
  void release_all() {
    const std::lock_guard lock(mutex_);
    held_.clear();
    changed_.notify_all();
  }
  // A thread at this point throws.
  void fail_at(const std::string& name, std::int64_t detail) {
    const std::lock_guard lock(mutex_);
    failing_.insert({name, detail});
  }
  // Waits until a thread has come there. False after a minute.
  bool wait_reached(const std::string& name, std::int64_t detail) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::minutes(1), [&] { return reached_.count({name, detail}) > 0; });
  }

 private:
  using Point = std::pair<std::string, std::int64_t>;

  void reach(Point point) {
    std::unique_lock lock(mutex_);
    reached_.insert(point);
    changed_.notify_all();
    if (failing_.count(point)) throw std::runtime_error("injected at " + point.first);
    changed_.wait(lock, [&] { return held_.count(point) == 0; });
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<Point> held_, reached_, failing_;
};

}  // namespace frugal::testing
