// One flush thread and the rows it alone writes: the g-entries (records planned and not yet landed), the two-level
// queue of the records that it has received, and the count of records per due step that the gate reads.
//
// A record lives from its registration until it has landed in its host row:
//   planned (counts at its due step, so the gate waits for it)
//   -> received (its bytes are in staging: in the queue, at its current due step; or behind an older record of its row)
//   -> being written (taken from the queue; still counts, at its current due step) -> landed (its staging may be
//   reused).
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "base/parallel/thread_safety.h"
#include "engine/p2f/flush_counters.h"
#include "engine/p2f/inbox.h"
#include "engine/p2f/level_queue.h"
#include "engine/record_writer.h"
#include "engine/row_map.h"

namespace frugal {

class FlushWorker {
 public:
  FlushWorker(const EngineConfig& config, std::shared_ptr<Segment> segment, int index);

  Inbox& inbox() { return inbox_; }
  // The worker's thread: until `stopping`, or until the engine fails.
  void run(const std::atomic<bool>& stopping);
  const FlushCounters& counters() const { return counters_; }

 private:
  static constexpr std::int32_t kNone = -1;

  enum class Stage : std::uint8_t { kPlanned, kReceived, kQueued, kWriting };
  struct Record {
    std::int64_t row, due, position, block;
    std::int32_t rank;      // of a value
    std::int32_t behind;    // the next record of the row
    std::int32_t gradient;  // index of its sources; kNone: a value
    Stage stage;
    bool write_back;
  };
  struct RowRecords {
    std::int32_t first = kNone, last = kNone;
  };
  // Records of one step that are received together: from one rank, or the gradients, which need all ranks.
  struct Incoming {
    std::vector<std::int32_t> records;
    std::vector<std::int32_t> urgent;  // rows that the next step reads
  };
  struct PendingWriteBack {
    std::uint64_t sequence;
    std::int32_t record;
  };

  // Registration.
  bool register_steps() FRUGAL_REQUIRES(thread_);
  void register_step(const StepOperations& step) FRUGAL_REQUIRES(thread_);
  void read_at(std::int64_t row, std::int64_t step) FRUGAL_REQUIRES(thread_);
  std::int32_t add_record(const Operation& operation, const StepOperations& step) FRUGAL_REQUIRES(thread_);
  // Receipt.
  bool take_incoming(bool flush_urgent) FRUGAL_REQUIRES(thread_);
  void take_step(Incoming& incoming, std::int64_t step, bool flush_urgent) FRUGAL_REQUIRES(thread_);
  void receive(std::int32_t record) FRUGAL_REQUIRES(thread_);
  void enqueue(std::int32_t record) FRUGAL_REQUIRES(thread_);
  // Flushing.
  bool flush_some(bool register_between) FRUGAL_REQUIRES(thread_);
  std::int64_t next_level() FRUGAL_REQUIRES(thread_);
  void write(std::int32_t record) FRUGAL_REQUIRES(thread_);
  void land(std::int32_t record) FRUGAL_REQUIRES(thread_);
  void release_staging(int rank, std::int64_t block) FRUGAL_REQUIRES(thread_);
  void count_releases() FRUGAL_REQUIRES(thread_);
  // The gate.
  void count(std::int64_t due, int change) FRUGAL_REQUIRES(thread_);
  void publish_open() FRUGAL_REQUIRES(thread_);

  Record& at(std::int32_t record) FRUGAL_REQUIRES(thread_) { return records_[static_cast<std::size_t>(record)]; }
  Incoming& incoming_of(std::int64_t step, int rank) FRUGAL_REQUIRES(thread_) {
    return incoming_[static_cast<std::size_t>(step % window_ * (ranks_ + 1) + rank)];
  }

  const std::shared_ptr<Segment> segment_;
  const int index_, ranks_;
  const std::int64_t window_;
  const std::int64_t due_ring_;  // length of due_counts_
  Inbox inbox_;
  FlushCounters counters_;

  ThreadRole thread_;  // the thread in run()
  RecordWriter writer_ FRUGAL_GUARDED_BY(thread_);
  RowMap<RowRecords> rows_ FRUGAL_GUARDED_BY(thread_);  // rows with records: the g-entries
  std::vector<Record> records_ FRUGAL_GUARDED_BY(thread_);
  std::vector<std::int32_t> free_records_ FRUGAL_GUARDED_BY(thread_);
  std::vector<std::vector<GradientSource>> gradients_ FRUGAL_GUARDED_BY(thread_);
  std::vector<std::int32_t> free_gradients_ FRUGAL_GUARDED_BY(thread_);
  LevelQueue queue_ FRUGAL_GUARDED_BY(thread_);

  // Records of a step that have not been received: per rank its values, and behind them the gradients.
  std::vector<Incoming> incoming_ FRUGAL_GUARDED_BY(thread_);
  std::vector<std::deque<PendingWriteBack>> write_backs_ FRUGAL_GUARDED_BY(thread_);  // per rank, in order of requests
  std::vector<std::int64_t> received_ FRUGAL_GUARDED_BY(thread_);  // per rank: steps that have been received
  std::int64_t received_everywhere_ FRUGAL_GUARDED_BY(thread_) = 0;
  std::vector<int> receive_order_ FRUGAL_GUARDED_BY(thread_);  // ranks, the last received one last; for one mutation

  std::vector<std::int32_t> due_counts_
      FRUGAL_GUARDED_BY(thread_);                           // records that have not landed, per finite due step
  std::int64_t registered_ FRUGAL_GUARDED_BY(thread_) = 0;  // steps
  std::int64_t open_ FRUGAL_GUARDED_BY(thread_) = 0;        // gates of steps below are open
  std::vector<std::int32_t> taken_ FRUGAL_GUARDED_BY(thread_);
  // Landed records of one block whose staging has not been given back yet (one atomic operation for many).
  int release_rank_ FRUGAL_GUARDED_BY(thread_) = 0;
  std::int64_t release_block_ FRUGAL_GUARDED_BY(thread_) = 0, release_count_ FRUGAL_GUARDED_BY(thread_) = 0;
  bool wake_ranks_ FRUGAL_GUARDED_BY(thread_) = false;
  std::uint64_t random_ FRUGAL_GUARDED_BY(thread_) = 1;  // for one variant of the tests
};

}  // namespace frugal
