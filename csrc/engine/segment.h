// The memory that ranks and engine share: registrations, plans, write-back requests, staging, counters, the sticky
// error.
//
// Private to a process, or a memfd that other processes attach: it has no name in a file system, so nothing is left
// behind however the processes end. All counters are monotone 64-bit numbers; a ring is indexed by a counter modulo its
// size and whoever writes a cell first makes sure that its last reader is done.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/parallel/event.h"
#include "base/parallel/shared_mapping.h"
#include "engine/config.h"
#include "engine/plan.h"
#include "engine/step_counts.h"

namespace frugal {

struct alignas(128) Counter {
  std::atomic<std::uint64_t> value;
};

// The numbers an attaching process needs to find its way.
struct SegmentShape {
  std::int32_t ranks, plans, lookahead, entries, workers;  // plans: one per rank, or one for all
  RowLayout layout;
  std::int64_t rows, max_rows, write_back_steps, staging_floats, window, block_ring, request_ring, poll_microseconds;
  FlushMode mode;
  bool keeps_reused, evicts_to_buffer;

  static SegmentShape of(const EngineConfig& config);  // throws std::invalid_argument with a sentence

  bool reads_follow_stores() const { return mode == FlushMode::kDirect; }
  bool in_step_sync() const { return reads_follow_stores() && plans > 1; }
  // Whether a step must know which rows other ranks read in the next one.
  bool publishes_before_sync() const { return in_step_sync() && write_back_steps > 0; }
  bool same_steps() const { return plans < ranks; }
  PlanFields plan() const { return PlanFields::of(max_rows, evicts_to_buffer); }
};

// The records that one rank sends for one step (and the write-backs that the step's plan asks of it): a stretch of its
// staging.
struct Block {
  std::atomic<std::int64_t> step;       // whose block the cell holds; the planner writes the fields in this order
  std::atomic<std::int64_t> begin;      // first position in staging, monotone
  std::int64_t end;                     // behind the last position; read by its rank until it publishes the step
  std::uint64_t requests_end;           // write-back requests up to and including this step; likewise
  std::atomic<std::int64_t> remaining;  // records that have not landed; counted down by flush workers, zero without any
};

inline constexpr std::int32_t kClosed = -1;

// One rank's numbers. Each counter has one writer, named here.
struct RankArea {
  Counter registered;                 // rank: steps whose rows are in the inbox
  Counter published;                  // rank or its device: steps that have run
  Counter written_back;               // rank or its device: write-back requests served
  Counter requested;                  // planner: write-back requests made; see Segment::requested
  Counter landed_back;                // flush workers (add): write-backs that have landed
  Counter wanted;                     // rank: steps whose plan it has asked for
  Counter drain_entered, drain_left;  // rank
  std::atomic<std::int32_t> pid;      // rank: of the process that drives it; 0: not attached; kClosed: it has left
  std::int64_t cache_slots;           // constant
  // Written by the rank (relaxed; only read for statistics).
  std::atomic<std::int64_t> steps, steps_with_stall, gate_stall, peer_wait, staging_stall, plan_wait, cache_reads,
      host_reads, buffer_reads, values, gradients, gradient_vectors, write_backs;
};

class Segment {
 public:
  static std::int64_t bytes_of(const SegmentShape& shape);
  // Throws std::runtime_error with a sentence if the memory is not there.
  static std::shared_ptr<Segment> create(const EngineConfig& config, bool shared);
  static std::shared_ptr<Segment> attach(const std::string& path);
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  const SegmentShape& shape() const;
  std::int64_t bytes() const { return memory_.bytes(); }
  void* data() const { return memory_.data(); }               // on a page
  const std::string& path() const { return memory_.path(); }  // for attach; empty if private

  // Events. Which condition belongs to which:
  Event& work();               // flush workers: batches posted, records published, write-backs served, stop
  Event& planning();           // planner: registrations, plans wanted, stop
  Event& gate();               // ranks: plan decided, gate opened, room in staging, drain, window; and every error
  Counter& planned();          // planner: steps decided
  std::atomic<std::int64_t>& first_step();  // every rank, before it registers its first one: its number in the run
  Counter& opened(int worker);  // flush worker: gates of steps below this are open as far as it knows
  RankArea& rank(int rank);
  // What follows is one rank's, or that of all where all have the same steps: a plan's cells are then read by every
  // rank, and used again when each has published the step.
  Counter& requested(int rank);  // planner: write-back requests made
  Block& block(int rank, std::int64_t step);
  // Whether everything in the block of a decided step has landed; if not, `begin` is its first position. The planner
  // reuses a cell only when its block has landed, so a cell that holds a later step says the same.
  bool landed(int rank, std::int64_t step, std::int64_t* begin = nullptr);

  // Cells of the rings that are indexed by step, one rank's.
  std::int64_t& inbox_count(int rank, std::int64_t step);
  StepCounts& counts(int rank, std::int64_t step);  // planner
  StepPlan plan(int rank, std::int64_t step);       // as it is in the cells
  char* plan_cell(int rank, std::int64_t step);  // SegmentShape::plan: the arrays of the next five
  std::int64_t* inbox_rows(int rank, std::int64_t step);
  std::int32_t* plan_source(int rank, std::int64_t step);
  RowDestination* plan_leave(int rank, std::int64_t step);
  std::int64_t* plan_target(int rank, std::int64_t step);
  std::int64_t& plan_published(int rank, std::int64_t step);
  std::int64_t* plan_evicted(int rank, std::int64_t step);  // with evicts_to_buffer, as the next one
  std::int64_t& plan_first_buffer_slot(int rank, std::int64_t step);
  std::int32_t* inbox_occurrences(int rank, std::int64_t step);  // entries * max_rows; nullptr with one plan
  WriteBack& request(int rank, std::uint64_t sequence) { return *requests(rank, sequence).begin(); }
  // The cell of that request and those behind it, as far as the ring's end.
  std::span<WriteBack> requests(int rank, std::uint64_t sequence);
  float* staging(int rank);
  float* staged(int rank, std::int64_t position) { return staging(rank) + position % shape().staging_floats; }

  // The sticky error: the first sentence wins, everybody wakes.
  void fail(const std::string& sentence);
  bool failed() const;
  std::string error() const;

  // Waits on `event` until ready() or the sticky error. Looks whether the engine's process lives when it is another
  // one, and at what nobody notifies of at least every `microseconds`. Returns false on an error.
  template <class Ready>
  bool wait(Event& event, Ready ready, std::int64_t microseconds = kWaitMicroseconds) {
    for (int spin = 0; spin < kSpins; ++spin) {
      if (ready()) return true;
      spin_pause();
    }
    while (true) {
      const std::uint32_t ticket = event.ticket();
      if (ready()) return true;
      if (failed()) return false;
      event.wait(ticket, microseconds);
      check_engine_lives();
    }
  }

 private:
  struct Header;
  struct Layout;
  static constexpr int kSpins = 400;                          // about 15 microseconds: less than to sleep and wake
  static constexpr std::int64_t kWaitMicroseconds = 100'000;  // how soon a dead engine process is noticed

  Segment();
  void check_engine_lives();
  Header& header() const { return *reinterpret_cast<Header*>(memory_.data()); }
  template <class T>
  T* at(std::int64_t offset) const {
    return reinterpret_cast<T*>(memory_.data() + offset);
  }
  template <class T>
  T* in_plan(int rank, std::int64_t offset) const;

  std::unique_ptr<Layout> layout_;
  SharedMapping memory_;
  OtherProcess engine_process_;  // where it is another one
};

}  // namespace frugal
