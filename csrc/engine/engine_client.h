// One rank's side of the engine: everything that a trainer or an executor calls. It works over the segment alone, so a
// rank may be a thread of the engine's process or a process of its own.
//
//   for s in steps:
//     while s + L not registered: register_step(...)      // any time ahead, also from another thread
//     plan = client.plan(s)                                  // waits until step s is decided
//     while (!(wb = client.write_backs(s)).empty()) {copy them; client.publish_write_backs(n);}
//     client.wait_gate(s)                                    // now every row that s reads from host is up to date
//     read, compute, update, write staging
//     client.publish(s)
//     (again write_backs(s + 1): what may leave now leaves off the critical path)
//
// register_step may be called by one thread while another one runs the step; all other calls belong to the rank's one
// executing thread. Every call throws EngineError, with the same sentence for all ranks, once the engine has failed.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <vector>

#include "engine/plan.h"

namespace frugal {

class GivenRows;
class Segment;
struct RankArea;

class EngineError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct RankStatistics {
  std::int64_t steps = 0;
  std::int64_t steps_with_stall = 0;        // steps that waited at all at the gate
  std::int64_t gate_stall_nanoseconds = 0;  // in wait_gate
  std::int64_t peer_wait_nanoseconds = 0;   // of it: until all ranks had finished the step before; the rest is flushing
  std::int64_t staging_stall_nanoseconds = 0;    // waiting for room in staging; a stall too
  std::int64_t plan_wait_nanoseconds = 0;        // waiting for the plan, which the lookahead should have hidden
  std::int64_t cache_reads = 0, host_reads = 0;  // rows by where they belong
  std::int64_t buffer_reads = 0;  // of host_reads: those read in the write-back buffer
  std::int64_t values_sent = 0, gradients_sent = 0, write_backs_sent = 0;  // records by kind
  std::int64_t gradient_vectors_sent = 0;  // a record of gradients has one per occurrence of its row
};

RankStatistics statistics_of(const RankArea& area);

class EngineClient {
 public:
  // given: of the planner, if that is in this process and plans for this rank's steps alone.
  EngineClient(std::shared_ptr<Segment> segment, int rank, std::shared_ptr<GivenRows> given = nullptr);
  ~EngineClient();
  EngineClient(const EngineClient&) = delete;
  EngineClient& operator=(const EngineClient&) = delete;

  int rank() const { return rank_; }
  int ranks() const;  // that share values: 1 where all run the same steps, each on columns of its own

  // Before the first step, which the engine counts as 0: its number in the run, the same one for all ranks. Only what
  // rows in half precision are rounded by depends on it.
  void count_from(std::int64_t step);

  // Step `step` of this rank uses `rows` (ascending, distinct, at most max_rows_per_step). Steps come in order, each
  // once. occurrences: for each entry, for each row, how many gradients it has there (entries * rows numbers); may be
  // empty with one rank, which never sends gradients. Copies both; but a client that the engine has made for a rank
  // whose steps alone are planned leaves rows that have an owner to the planner, which copies them, looks at them, and
  // then lets go of the owner: a wrong list is an EngineError there. The step is decided when all ranks have registered
  // it. Of ranks that run the same steps, rank 0 says which rows, and waits until the others have come as far as the
  // lookahead needs; what the others say is not looked at. Throws std::invalid_argument for a wrong list,
  // std::logic_error beyond the lookahead.
  void register_step(std::int64_t step, std::span<const std::int64_t> rows, std::span<const std::int32_t> occurrences,
                     std::shared_ptr<const void> owner = nullptr);

  // Waits until the step is decided. Valid until publish(step).
  StepPlan plan(std::int64_t step);
  // The same as one stretch of memory, plan_fields().bytes long; see PlanFields.
  std::span<const char> plan_cell(std::int64_t step);
  PlanFields plan_fields() const;
  std::int64_t planned_steps() const;  // that are decided
  std::int64_t plan_cells() const;  // step s has cell s % plan_cells()
  std::int64_t max_rows() const;  // of a step
  std::int64_t slots() const;     // of this rank's cache

  // Write-backs that may leave now that all steps before `step` have run; empty when there are none. Always contains,
  // over repeated calls, the write-backs that must leave before gate `step`. Waits for room in staging for what step
  // `step` sends.
  std::span<const WriteBack> write_backs(std::int64_t step);
  // The first `count` of the last span are in staging.
  void publish_write_backs(std::int64_t count);

  // Waits until step `step` may read host rows. Returns the nanoseconds it waited. Throws std::logic_error if
  // write-backs that are due have not been published.
  std::int64_t wait_gate(std::int64_t step);
  // Whether wait_gate would return at once.
  bool gate_open(std::int64_t step) const;

  // All records of the step are in staging (or in their host rows); its cached rows are updated.
  void publish(std::int64_t step);

  // Between two steps: waits until all ranks are here and all records that they published have landed. Collective,
  // unless all ranks run the same steps, each on columns of its own.
  // Returns the rows that this rank's slots alone hold now: the executor stores their records into the host rows, then
  // calls finish_drain, after which the table holds every update and nothing but the updates of the finished steps.
  // Steps that are registered already are not disturbed, and the cache stays as it is.
  std::vector<CachedRow> drain();
  void finish_drain();

  // All memory that ranks and engine share, from a page on, for an executor that has to register it with a device.
  std::span<char> shared_memory() const;
  // This rank's staging: floats, 128-byte aligned, in the segment (which a device may map).
  std::span<float> staging();
  std::span<float> staging_of(int rank);  // another one's, which is read with in-step synchronisation
  // For executors on a device, instead of publish/publish_write_backs: monotone 64-bit counters in the segment. Store
  // step + 1 into the first when the step's records are visible to the host; add to the second per write-back. The
  // engine needs poll_microseconds > 0 then, and the host calls note_published afterwards, in order, to keep its books.
  std::atomic<std::uint64_t>* published_counter();
  std::atomic<std::uint64_t>* write_backs_counter();
  void note_published(std::int64_t step);
  void note_write_backs(std::int64_t count);

  RankStatistics statistics() const;

  // Stops every rank and the engine with this sentence; later ones are ignored.
  void fail(const char* sentence);

 private:
  struct Executed;
  void check() const;
  void add_buffered(std::vector<CachedRow>& cached) const;
  void wait_for_other_ranks(std::int64_t steps);

  std::shared_ptr<Segment> segment_;
  int rank_;
  std::shared_ptr<GivenRows> given_;
  std::unique_ptr<Executed> executed_;  // what this rank has run so far; its own
};

}  // namespace frugal
