#include "engine/engine.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <stdexcept>
#include <thread>

#include "base/parallel/shared_mapping.h"
#include "base/parallel/start_thread.h"
#include "engine/p2f/flush_worker.h"
#include "engine/planner.h"
#include "engine/segment.h"

namespace frugal {
namespace {

constexpr int kWatchMilliseconds = 100;
constexpr unsigned long kTimerSlackNanoseconds = 1'000;

}  // namespace

// Notices ranks that have gone, whose process has ended or which left while others wait for them, and ranks that wait
// for each other.
class RankWatch {
  using Clock = std::chrono::steady_clock;

 public:
  RankWatch(std::shared_ptr<Segment> segment, double attach_seconds)
      : segment_(std::move(segment)),
        attach_until_(Clock::now() +
                      std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(attach_seconds))),
        processes_(static_cast<std::size_t>(segment_->shape().ranks)) {}

  void run(const std::atomic<bool>& stopping) {
    while (!stopping.load(std::memory_order_acquire) && !segment_->failed()) {
      look();
      const std::uint32_t ticket = wake_.ticket();
      if (!stopping.load(std::memory_order_acquire)) wake_.wait(ticket, kWatchMilliseconds * 1000);
    }
  }
  void wake() { wake_.notify(); }

 private:
  void look() {
    look_at_drains();
    std::uint64_t wanted = 0;
    for (int r = 0; r < segment_->shape().ranks; ++r)
      wanted = std::max(wanted, segment_->rank(r).wanted.value.load(std::memory_order_acquire));
    for (int r = 0; r < segment_->shape().ranks; ++r) {
      RankArea& area = segment_->rank(r);
      const std::int32_t pid = area.pid.load(std::memory_order_acquire);
      const std::string name = "Rank " + std::to_string(r);
      const std::uint64_t registered = area.registered.value.load(std::memory_order_acquire);
      if (pid == 0) {
        if (registered < wanted && Clock::now() > attach_until_)
          segment_->fail(name + " has not attached to the engine, and other ranks wait for it.");
      } else if (pid == kClosed) {
        if (registered < wanted)
          segment_->fail(name + " left before step " + std::to_string(registered) + ", which other ranks wait for.");
      } else if (pid != getpid() && processes_[static_cast<std::size_t>(r)].has_ended(pid)) {
        if (area.pid.load(std::memory_order_acquire) != kClosed)
          segment_->fail(name + " (process " + std::to_string(pid) + ") has ended.");
      }
    }
  }

  // A rank that has entered a drain waits for all others, which must enter it after as many steps.
  void look_at_drains() {
    if (segment_->shape().same_steps()) return;  // each drains by itself
    int first = 0;
    std::uint64_t drains = 0;
    for (int r = 0; r < segment_->shape().ranks; ++r) {
      const std::uint64_t entered = segment_->rank(r).drain_entered.value.load(std::memory_order_acquire);
      if (entered > drains) first = r, drains = entered;
    }
    const std::uint64_t steps = segment_->rank(first).published.value.load(std::memory_order_acquire);
    for (int r = 0; r < segment_->shape().ranks; ++r) {
      RankArea& area = segment_->rank(r);
      const bool closed = area.pid.load(std::memory_order_acquire) == kClosed;
      const std::uint64_t begun = std::max(area.wanted.value.load(std::memory_order_acquire),
                                           area.published.value.load(std::memory_order_acquire));
      // Read last: a rank that began later steps behind the drain has entered it before.
      if (area.drain_entered.value.load(std::memory_order_acquire) >= drains || (!closed && begun <= steps)) continue;
      segment_->fail("Rank " + std::to_string(first) + " waits for all ranks to write their updates to host memory, "
                     "but rank " + std::to_string(r) +
                     (closed ? " has left" : " goes on with step " + std::to_string(steps)) +
                     ". All ranks ask for weight, state_dict, save, close and lookups without a gradient after the "
                     "same step.");
    }
  }

  const std::shared_ptr<Segment> segment_;
  const Clock::time_point attach_until_;
  std::vector<OtherProcess> processes_;  // of the thread in run()
  Event wake_{};
};

void EngineConfig::run_on_devices(bool evicts) {
  constexpr std::int64_t kPollMicroseconds = 20;  // nobody wakes flush threads when a device's counter advances
  write_back_steps = kStepsOnDevice;
  evicts_to_buffer = evicts && std::ranges::none_of(caches, [](const auto& cache) { return cache->keeps_for_good(); });
  horizon = keeps_reused ? std::min(write_back_steps, lookahead - 1) : 0;
  lookahead += kStepsEnqueued;
  poll_microseconds = kPollMicroseconds;
}

struct Engine::Parts {
  EngineConfig config;
  std::shared_ptr<Segment> segment;
  std::vector<std::unique_ptr<FlushWorker>> flushers;
  std::shared_ptr<GivenRows> given;  // of rank 0, if there is one plan
  std::unique_ptr<Planner> planner;
  std::unique_ptr<RankWatch> watch;
  std::vector<std::unique_ptr<EngineClient>> clients;
  std::atomic<bool> stopping{false};
  std::vector<std::thread> threads;

  // A thread of the engine. Its exception becomes the sticky error.
  void start(std::string name, std::function<void()> body) {
    threads.push_back(start_thread([this, name = std::move(name), body = std::move(body)] {
      // Flush threads look at a device's counters after sleeps of some microseconds, which the system stretches by 50.
      prctl(PR_SET_TIMERSLACK, kTimerSlackNanoseconds);
      try {
        body();
      } catch (const std::exception& error) {
        segment->fail("The engine's " + name + " failed: " + error.what());
      } catch (...) {
        segment->fail("The engine's " + name + " failed.");
      }
    }));
  }

  void stop() {
    stopping.store(true, std::memory_order_release);
    segment->work().notify();
    segment->planning().notify();
    watch->wake();
    for (std::thread& thread : threads) thread.join();
    segment->fail("The engine was closed.");
  }
};

Engine::Engine(EngineConfig config, bool shared) : parts_(std::make_unique<Parts>()) {
  if (config.host_rows == nullptr || config.update == nullptr)
    throw std::invalid_argument("The engine needs a table and a row update.");
  Parts& parts = *parts_;
  parts.config = std::move(config);
  parts.segment = Segment::create(parts.config, shared);
  std::vector<Inbox*> inboxes;
  for (int i = 0; i < parts.segment->shape().workers; ++i) {
    parts.flushers.push_back(std::make_unique<FlushWorker>(parts.config, parts.segment, i));
    inboxes.push_back(&parts.flushers.back()->inbox());
  }
  if (parts.segment->shape().plans == 1) parts.given = std::make_shared<GivenRows>(parts.segment->shape().window);
  parts.planner = std::make_unique<Planner>(parts.config, parts.segment, inboxes, parts.given);
  parts.watch = std::make_unique<RankWatch>(parts.segment, parts.config.attach_seconds);
  parts.clients.resize(static_cast<std::size_t>(parts.config.ranks));
  try {
    parts.start("planner", [&parts] { parts.planner->run(parts.stopping); });
    parts.start("watch over the ranks", [&parts] { parts.watch->run(parts.stopping); });
    for (std::size_t i = 0; i < parts.flushers.size(); ++i)
      parts.start("flush thread " + std::to_string(i), [&parts, i] { parts.flushers[i]->run(parts.stopping); });
  } catch (...) {  // no more threads to be had
    parts.stop();
    throw;
  }
}

Engine::~Engine() { parts_->stop(); }

std::int64_t Engine::bytes_of(const EngineConfig& config) {
  const SegmentShape shape = SegmentShape::of(config);
  std::int64_t slots = 0;
  bool counts = false;
  for (const auto& cache : config.caches) {
    slots += cache->slots();
    counts |= cache->wants_count();
  }
  return Segment::bytes_of(shape) + Planner::bytes_of(shape, slots, counts);
}

const EngineConfig& Engine::config() const { return parts_->config; }

EngineClient& Engine::client(int rank) {
  if (rank < 0 || rank >= parts_->config.ranks)
    throw std::invalid_argument("Rank " + std::to_string(rank) + " is none of the engine's " +
                                std::to_string(parts_->config.ranks) + " ranks.");
  std::unique_ptr<EngineClient>& client = parts_->clients[static_cast<std::size_t>(rank)];
  if (!client) client = make_client(rank);
  return *client;
}

std::unique_ptr<EngineClient> Engine::make_client(int rank) const {
  return std::make_unique<EngineClient>(parts_->segment, rank, rank == 0 ? parts_->given : nullptr);
}

std::shared_ptr<Segment> Engine::segment() const { return parts_->segment; }

EngineStatistics Engine::statistics() const {
  const auto get = [](const std::atomic<std::int64_t>& value) { return value.load(std::memory_order_relaxed); };
  EngineStatistics statistics;
  for (int r = 0; r < parts_->config.ranks; ++r)
    statistics.ranks.push_back(statistics_of(parts_->segment->rank(r)));
  statistics.engine_bytes = parts_->segment->bytes() + parts_->planner->bytes();
  for (const auto& flusher : parts_->flushers) {
    const FlushCounters& c = flusher->counters();
    statistics.workers.push_back({get(c.values) + get(c.gradients), get(c.bytes), get(c.values), get(c.gradients)});
    statistics.engine_bytes += get(c.memory);
  }
  if (parts_->segment->shape().reads_follow_stores()) {  // without a flush worker: what a rank has sent has landed
    const RankStatistics& rank = statistics.ranks[0];
    const std::int64_t stored = rank.values_sent + rank.write_backs_sent;
    statistics.workers.push_back({.flushed_rows = stored,
                                  .flushed_bytes = stored * parts_->config.layout.record_floats() * 4,
                                  .values = stored});
  }
  statistics.planned_steps =
      static_cast<std::int64_t>(parts_->segment->planned().value.load(std::memory_order_acquire));
  statistics.planning_nanoseconds = parts_->planner->nanoseconds();
  return statistics;
}

}  // namespace frugal
