// Runs a workload with every rank a process, forked from this one (which must have no other threads). Rank 0's process
// also runs the engine, as a trainer's does. The table lies in memory that all of them share.
#pragma once

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <new>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "engine/segment.h"
#include "tests/engine/run_workload.h"

namespace frugal::testing {

// Zeroed memory that forked processes share.
class SharedMemory {
 public:
  explicit SharedMemory(std::size_t bytes)
      : bytes_(bytes), data_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
    if (data_ == MAP_FAILED) throw std::bad_alloc();
  }
  ~SharedMemory() { munmap(data_, bytes_); }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  void* data() const { return data_; }

 private:
  std::size_t bytes_;
  void* data_;
};

enum ExitCode : int { kDone = 0, kOtherError = 1, kStoppedByEngine = 2, kNeverStarted = 3 };

struct ProcessOutcome {
  std::vector<int> exit_codes;  // ExitCode, or -signal
  std::vector<std::string> errors;
  std::int64_t stale_reads = 0;
  bool hung = false;  // somebody had to be killed at the end
};

struct ProcessOptions {
  int kill_rank = -1;  // killed while it waits before this step
  std::int64_t kill_at_step = 0;
  std::chrono::seconds patience{600};
};

inline ProcessOutcome run_processes(const Shape& shape, const Trace& trace, std::span<float> table,
                                    const ProcessOptions& options = {}) {
  struct Control {
    std::atomic<int> ready, abandoned, victim_waits;
    std::atomic<std::int64_t> stale;
    char path[64];
    char errors[16][256];
  };
  SharedMemory memory(sizeof(Control));
  Control& control = *static_cast<Control*>(memory.data());
  const RowLayout layout = RowLayout::for_dim(shape.dim);
  const auto update = std::make_shared<RowAdagradUpdate>(0.1f);
  const Oracle oracle(shape, trace, layout, *update, std::vector<float>(table.begin(), table.end()));
  const auto child = [&](int rank) -> int {
    bool attached = rank == 0;
    try {
      std::unique_ptr<Engine> engine;
      std::shared_ptr<Segment> segment;
      if (rank == 0) {
        engine = std::make_unique<Engine>(engine_config(shape, layout, table.data(), update), true);
        segment = engine->segment();
        std::strncpy(control.path, engine->segment()->path().c_str(), sizeof(control.path) - 1);
        control.ready = 1;
      } else {
        while (!control.ready && !control.abandoned) std::this_thread::sleep_for(std::chrono::microseconds(200));
        if (control.abandoned) return kNeverStarted;
        segment = Segment::attach(control.path);
      }
      attached = true;
      EngineClient client(segment, rank);
      const auto wait_for_the_kill = [&](int self, std::int64_t step) {
        if (self != options.kill_rank || step != options.kill_at_step) return;
        control.victim_waits = 1;
        while (true) pause();
      };
      train_rank(client, shape, trace, oracle, table.data(), update, control.stale, wait_for_the_kill, {});
      return kDone;
    } catch (const EngineError& error) {
      std::strncpy(control.errors[rank], error.what(), 255);
      return kStoppedByEngine;
    } catch (const std::exception& error) {
      std::strncpy(control.errors[rank], error.what(), 255);
      return attached ? kOtherError : kNeverStarted;  // the engine's process was gone already
    }
  };
  std::vector<pid_t> processes;
  std::fflush(nullptr);  // or every child would print what waits in our buffers
  for (int rank = 0; rank < shape.ranks; ++rank) {
    const pid_t process = fork();
    if (process == 0) _exit(child(rank));
    processes.push_back(process);
  }
  ProcessOutcome outcome;
  outcome.exit_codes.assign(processes.size(), kDone);
  const auto start = std::chrono::steady_clock::now();
  std::size_t gone = 0;
  while (gone < processes.size()) {
    const auto now = std::chrono::steady_clock::now();
    if (control.victim_waits.exchange(0)) kill(processes[static_cast<std::size_t>(options.kill_rank)], SIGKILL);
    for (std::size_t r = 0; r < processes.size(); ++r) {
      int status = 0;
      if (processes[r] <= 0 || waitpid(processes[r], &status, WNOHANG) != processes[r]) continue;
      processes[r] = 0;
      outcome.exit_codes[r] = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
      if (r == 0) control.abandoned = 1;
      ++gone;
    }
    if (now - start > options.patience && !outcome.hung) {
      outcome.hung = true;
      for (const pid_t process : processes)
        if (process > 0) kill(process, SIGKILL);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(300));
  }
  outcome.stale_reads = control.stale;
  for (int rank = 0; rank < shape.ranks; ++rank) outcome.errors.emplace_back(control.errors[rank]);
  return outcome;
}

}  // namespace frugal::testing
