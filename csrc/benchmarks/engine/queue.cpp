// Queue operations per second: the two-level queue, a binary heap with an index map, and oneTBB's concurrent priority
// queue, on the same trace of enqueue, move and take, with the same threads. Prints one JSON object.
//
// The trace is what a flush worker does in training: each step, records come in (most of them due never, some soon),
// some of those that wait get a due step, what is due next is taken, and then the rest from the front until `backlog`
// are left. The peers are taken at their best: the heap is sharded like ours (a heap for all threads under one lock
// would be slower), oneTBB's queue runs both ways, one for all threads and one per thread. It has no move: the item is
// pushed again and its older entry is dropped when it surfaces.
#include <oneapi/tbb/concurrent_priority_queue.h>

#include <atomic>
#include <cstdio>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "benchmarks/engine/timing.h"
#include "engine/level_queue.h"

namespace frugal::benchmarks {
namespace {

constexpr std::int64_t kLookahead = 10;
constexpr int kEnqueues = 2000, kMoves = 600;  // per step

class TwoLevel {
 public:
  explicit TwoLevel(std::int32_t items) : queue_(kLookahead + 2), queued_(static_cast<std::size_t>(items)) {}
  void step(std::int64_t step) { queue_.advance(step); }
  void put(std::int32_t item, std::int64_t due) {
    auto& queued = queued_[static_cast<std::size_t>(item)];
    if (queued)
      queue_.move(item, due);
    else
      queue_.enqueue(item, due);
    queued = 1;
  }
  // Takes items due before `limit`, at most `count`; appends them.
  void take(std::int64_t limit, std::size_t count, std::vector<std::int32_t>& items) {
    const std::size_t begin = items.size();
    while (items.size() - begin < count && !queue_.empty()) {
      const std::int64_t front = queue_.front();
      if (front >= limit && limit != kNever) break;
      queue_.take(front, count - (items.size() - begin), items);
    }
    for (std::size_t i = begin; i < items.size(); ++i) queued_[static_cast<std::size_t>(items[i])] = 0;
  }

 private:
  LevelQueue queue_;
  std::vector<char> queued_;
};

class BinaryHeap {
 public:
  explicit BinaryHeap(std::int32_t items) : place_(static_cast<std::size_t>(items), -1) {}
  void step(std::int64_t) {}
  void put(std::int32_t item, std::int64_t due) {
    std::int32_t at = place_[static_cast<std::size_t>(item)];
    if (at < 0) {
      at = static_cast<std::int32_t>(heap_.size());
      heap_.push_back({due, item});
      place_[static_cast<std::size_t>(item)] = at;
    } else {
      heap_[static_cast<std::size_t>(at)].due = due;
      down(static_cast<std::size_t>(at));
    }
    up(static_cast<std::size_t>(place_[static_cast<std::size_t>(item)]));
  }
  void take(std::int64_t limit, std::size_t count, std::vector<std::int32_t>& items) {
    for (; count > 0 && !heap_.empty() && (heap_[0].due < limit || limit == kNever); --count) {
      items.push_back(heap_[0].item);
      place_[static_cast<std::size_t>(heap_[0].item)] = -1;
      heap_[0] = heap_.back();
      heap_.pop_back();
      if (heap_.empty()) break;
      place_[static_cast<std::size_t>(heap_[0].item)] = 0;
      down(0);
    }
  }

 private:
  struct Entry {
    std::int64_t due;
    std::int32_t item;
  };
  void up(std::size_t i) {
    const Entry entry = heap_[i];
    for (; i > 0 && entry.due < heap_[(i - 1) / 2].due; i = (i - 1) / 2) set(i, heap_[(i - 1) / 2]);
    set(i, entry);
  }
  void down(std::size_t i) {
    const Entry entry = heap_[i];
    for (std::size_t child = 2 * i + 1; child < heap_.size(); child = 2 * i + 1) {
      if (child + 1 < heap_.size() && heap_[child + 1].due < heap_[child].due) ++child;
      if (entry.due <= heap_[child].due) break;
      set(i, heap_[child]);
      i = child;
    }
    set(i, entry);
  }
  void set(std::size_t i, const Entry& entry) {
    heap_[i] = entry;
    place_[static_cast<std::size_t>(entry.item)] = static_cast<std::int32_t>(i);
  }
  std::vector<Entry> heap_;
  std::vector<std::int32_t> place_;
};

struct TbbEntry {
  std::int64_t due;
  std::int32_t item;
  std::uint32_t version;
};
struct Later {
  bool operator()(const TbbEntry& a, const TbbEntry& b) const { return a.due > b.due; }
};
struct TbbShared {
  explicit TbbShared(std::int32_t items) : version(static_cast<std::size_t>(items)) {}
  tbb::concurrent_priority_queue<TbbEntry, Later> queue;
  std::vector<std::atomic<std::uint32_t>> version;  // odd: queued
};

class Tbb {
 public:
  Tbb(std::shared_ptr<TbbShared> shared, std::int32_t first) : shared_(std::move(shared)), first_(first) {}
  void step(std::int64_t) {}
  void put(std::int32_t item, std::int64_t due) {
    auto& version = shared_->version[static_cast<std::size_t>(first_ + item)];
    const std::uint32_t old = version.load(std::memory_order_relaxed);
    const std::uint32_t fresh = old + (old % 2 ? 2 : 1);
    version.store(fresh, std::memory_order_relaxed);
    shared_->queue.push({due, first_ + item, fresh});
  }
  void take(std::int64_t limit, std::size_t count, std::vector<std::int32_t>& items) {
    TbbEntry entry;
    while (count > 0 && shared_->queue.try_pop(entry)) {
      auto& version = shared_->version[static_cast<std::size_t>(entry.item)];
      if (version.load(std::memory_order_relaxed) != entry.version) continue;
      if (entry.due >= limit && limit != kNever) {
        shared_->queue.push(entry);
        break;
      }
      version.store(entry.version + 1, std::memory_order_relaxed);
      items.push_back(entry.item);
      --count;
    }
  }

 private:
  std::shared_ptr<TbbShared> shared_;
  std::int32_t first_;
};

// One thread's puts, made beforehand: item and how many steps ahead it is due (0: never).
struct Put {
  std::int32_t item, ahead;
};

std::vector<Put> make_puts(int thread, std::int64_t steps, std::int32_t items) {
  std::mt19937_64 random(static_cast<unsigned>(thread));
  std::vector<Put> puts;
  for (std::int64_t i = 0; i < steps * (kEnqueues + kMoves); ++i) {
    const std::uint64_t x = random();
    const bool due = i % (kEnqueues + kMoves) >= kEnqueues || (x >> 32) % 10 < 3;
    puts.push_back({static_cast<std::int32_t>(x % static_cast<std::uint64_t>(items)),
                    due ? 1 + static_cast<std::int32_t>((x >> 40) % kLookahead) : 0});
  }
  return puts;
}

// Returns the number of operations.
template <class Queue>
std::int64_t play(Queue& queue, const std::vector<Put>& puts, std::int64_t steps, std::size_t backlog) {
  std::int64_t operations = 0;
  const Put* next = puts.data();
  std::size_t live = 0;
  std::vector<std::int32_t> taken;
  for (std::int64_t s = 0; s < steps; ++s) {
    queue.step(s);
    for (int i = 0; i < kEnqueues + kMoves; ++i, ++next) queue.put(next->item, next->ahead ? s + next->ahead : kNever);
    live += kEnqueues + kMoves;
    taken.clear();
    queue.take(s + 2, 1u << 30, taken);
    const std::size_t due = taken.size();
    live -= std::min(live, due);
    if (live > backlog) queue.take(kNever, live - backlog, taken);
    live -= std::min(live, taken.size() - due);
    operations += kEnqueues + kMoves + static_cast<std::int64_t>(taken.size());
  }
  return operations;
}

template <class MakeQueue>
double rate(int threads, std::int64_t steps, std::int32_t items, std::size_t backlog, MakeQueue make) {
  std::vector<double> rates;
  std::vector<std::vector<Put>> puts;
  for (int t = 0; t < threads; ++t) puts.push_back(make_puts(t, steps, items));
  for (int repeat = 0; repeat < 5; ++repeat) {
    std::atomic<std::int64_t> operations{0};
    std::vector<decltype(make(0))> queues;
    for (int t = 0; t < threads; ++t) queues.push_back(make(t));
    std::vector<std::thread> workers;
    const double start = now();
    for (int t = 0; t < threads; ++t)
      workers.emplace_back([&, t] {
        const auto mine = static_cast<std::size_t>(t);
        operations += play(*queues[mine], puts[mine], steps, backlog);
      });
    for (std::thread& worker : workers) worker.join();
    rates.push_back(static_cast<double>(operations) / (now() - start));
  }
  return median(rates);
}

}  // namespace
}  // namespace frugal::benchmarks

int main(int argc, char** argv) {
  using namespace frugal::benchmarks;
  const long threads = number(argc, argv, "--threads", 2), steps = number(argc, argv, "--steps", 200);
  const auto items = static_cast<std::int32_t>(number(argc, argv, "--items", 60000));
  const auto backlog = static_cast<std::size_t>(number(argc, argv, "--backlog", 20000));
  const int n = static_cast<int>(threads);
  const double ours = rate(n, steps, items, backlog, [&](int) { return std::make_unique<TwoLevel>(items); });
  const double heap = rate(n, steps, items, backlog, [&](int) { return std::make_unique<BinaryHeap>(items); });
  std::shared_ptr<TbbShared> one;
  const double tbb_shared = rate(n, steps, items, backlog, [&](int t) {
    if (t == 0) one = std::make_shared<TbbShared>(items * n);
    return std::make_unique<Tbb>(one, items * t);
  });
  const double tbb_sharded =
      rate(n, steps, items, backlog, [&](int) { return std::make_unique<Tbb>(std::make_shared<TbbShared>(items), 0); });
  const double best = std::max({heap, tbb_shared, tbb_sharded});
  std::printf(
      "{\"threads\": %ld, \"items\": %d, \"backlog\": %zu, \"two_level\": %.4g, \"binary_heap\": %.4g, "
      "\"tbb_shared\": %.4g, \"tbb_sharded\": %.4g, \"over_best_peer\": %.4g}\n",
      threads, items, backlog, ours, heap, tbb_shared, tbb_sharded, ours / best);
}
