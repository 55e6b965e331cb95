#include "engine/p2f/flush_worker.h"

#include <algorithm>
#include <bit>

#include "engine/testing.h"

namespace frugal {
namespace {

constexpr std::size_t kFlushChunk = 16;  // records between two looks at what has been received: the next gate may wait
                                         // for it
constexpr std::size_t kRegisterEvery = 8;  // records between two looks at the inbox: registration opens gates
constexpr std::size_t kRecordsAhead = 2;  // whose lines are asked for
constexpr std::int64_t kSleepMicroseconds = 100'000;

}  // namespace

FlushWorker::FlushWorker(const EngineConfig& config, std::shared_ptr<Segment> segment, int index)
    : segment_(std::move(segment)),
      index_(index),
      ranks_(config.ranks),
      window_(segment_->shape().window),
      due_ring_(static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(window_ + 2)))),
      inbox_(window_ + 2),
      writer_(config, segment_),
      queue_(window_ + 2),
      incoming_(static_cast<std::size_t>(window_ * (config.ranks + 1))),
      write_backs_(static_cast<std::size_t>(config.ranks)),
      received_(static_cast<std::size_t>(config.ranks)),
      due_counts_(static_cast<std::size_t>(due_ring_)),
      random_(static_cast<std::uint64_t>(index) * 2 + 1) {}

void FlushWorker::run(const std::atomic<bool>& stopping) {
  RoleScope scope(thread_);
  const std::int64_t poll = segment_->shape().poll_microseconds;
  const std::int64_t patience = poll > 0 ? poll : kSleepMicroseconds;
  constexpr int kIdleRounds = 32;
  int idle = 0;
  while (!stopping.load(std::memory_order_acquire) && !segment_->failed()) {
    const std::uint32_t ticket = segment_->work().ticket();
    bool worked = take_incoming(true);
    worked |= register_steps();
    worked |= flush_some(true);
    publish_open();
    if (worked) {
      idle = 0;
    } else if (++idle < kIdleRounds) {
      spin_pause();
    } else {
      segment_->work().wait(ticket, patience);
    }
  }
}

// ---- registration

bool FlushWorker::register_steps() {
  bool any = false;
  while (const StepOperations* step = inbox_.front()) {
    FRUGAL_SYNC_POINT("worker:register", step->step);
    register_step(*step);
    inbox_.pop();
    publish_open();
    FRUGAL_SYNC_POINT("worker:registered", registered_ - 1);
    any = true;
  }
  if (any) segment_->planning().notify();  // the inbox has room
  return any;
}

void FlushWorker::register_step(const StepOperations& step) {
  take_incoming(false);  // so that the lists of step - window, which used the same cells, are empty
  for (const Operation& operation : step.write_backs) {
    const std::int32_t record = add_record(operation, step);
    at(record).write_back = true;
    write_backs_[static_cast<std::size_t>(operation.rank)].push_back({operation.sequence, record});
  }
  const std::size_t count = step.operations.size();
  for (std::size_t i = 0; i < count; ++i) {
    if (i + kRegisterEvery < count) rows_.prefetch(step.operations[i + kRegisterEvery].row);
    const Operation& operation = step.operations[i];
    switch (operation.kind) {
      case Operation::Kind::kRead:
        read_at(operation.row, step.step);
        break;
      case Operation::Kind::kGradient:
        incoming_of(step.step, ranks_).records.push_back(add_record(operation, step));
        break;
      default:
        incoming_of(step.step, operation.rank).records.push_back(add_record(operation, step));
    }
  }
  registered_ = step.step + 1;
}

// A new host read makes the row's last record due, wherever that record is.
void FlushWorker::read_at(std::int64_t row, std::int64_t step) {
  const RowRecords* of_row = rows_.find(row);
  if (of_row == nullptr) return;
  Record& record = at(of_row->last);
  if (record.due <= step) return;
  if (record.stage == Stage::kWriting && mutated(Mutation::kWritingLevelFrozen)) return;
  const bool counted = !mutated(Mutation::kOnlyReceivedCounts) || record.stage >= Stage::kQueued;
  if (counted && !(record.stage == Stage::kWriting && mutated(Mutation::kWritingNotCounted))) {
    count(record.due, -1);
    count(step, +1);
  }
  record.due = step;
  if (record.stage == Stage::kPlanned && record.block == step - 1 && !record.write_back)
    incoming_of(step - 1, record.gradient == kNone ? record.rank : ranks_).urgent.push_back(of_row->last);
  if (record.stage == Stage::kQueued) queue_.move(of_row->last, step);
}

std::int32_t FlushWorker::add_record(const Operation& operation, const StepOperations& step) {
  std::int32_t index;
  if (free_records_.empty()) {
    index = static_cast<std::int32_t>(records_.size());
    records_.emplace_back();
    counters_.memory.store(
        static_cast<std::int64_t>(records_.capacity() * sizeof(Record) + rows_.bytes() + queue_.bytes()),
        std::memory_order_relaxed);
  } else {
    index = free_records_.back();
    free_records_.pop_back();
  }
  Record& record = at(index);
  record = {.row = operation.row,
            .due = operation.due,
            .position = operation.position,
            .block = step.step,
            .rank = operation.rank,
            .behind = kNone,
            .gradient = kNone,
            .stage = Stage::kPlanned,
            .write_back = false};
  if (operation.kind == Operation::Kind::kGradient) {
    if (free_gradients_.empty()) {
      free_gradients_.push_back(static_cast<std::int32_t>(gradients_.size()));
      gradients_.emplace_back();
    }
    record.gradient = free_gradients_.back();
    free_gradients_.pop_back();
    const GradientSource* sources = step.sources.data() + operation.first_source;
    gradients_[static_cast<std::size_t>(record.gradient)].assign(sources, sources + operation.sources);
  }
  RowRecords& of_row = rows_[operation.row];
  if (of_row.first == kNone)
    of_row.first = index;
  else
    at(of_row.last).behind = index;
  of_row.last = index;
  if (!mutated(Mutation::kOnlyReceivedCounts)) count(record.due, +1);
  return index;
}

// ---- receipt

bool FlushWorker::take_incoming(bool flush_urgent) {
  bool any = false;
  std::int64_t everywhere = kNever;
  for (int r = 0; r < ranks_; ++r) {
    RankArea& area = segment_->rank(r);
    std::int64_t& received = received_[static_cast<std::size_t>(r)];
    const auto published = static_cast<std::int64_t>(area.published.value.load(std::memory_order_acquire));
    for (; received < std::min(published, registered_); ++received) {
      take_step(incoming_of(received, r), received, flush_urgent);
      any = true;
      if (mutated(Mutation::kReceiveOrder)) {
        std::erase(receive_order_, r);
        receive_order_.push_back(r);
      }
    }
    everywhere = std::min(everywhere, received);
    std::deque<PendingWriteBack>& pending = write_backs_[static_cast<std::size_t>(r)];
    if (pending.empty()) continue;
    const std::uint64_t served = area.written_back.value.load(std::memory_order_acquire);
    while (!pending.empty() && pending.front().sequence < served) {
      receive(pending.front().record);
      pending.pop_front();
      any = true;
    }
  }
  for (; received_everywhere_ < everywhere; ++received_everywhere_) {
    take_step(incoming_of(received_everywhere_, ranks_), received_everywhere_, flush_urgent);
  }
  return any;
}

// Rows that the next step reads are written to the host before the others are even queued: its gate waits for just
// that. No step is registered in between, so the lists and the pool stay as they are.
void FlushWorker::take_step(Incoming& incoming, std::int64_t step, bool flush_urgent) {
  if (!incoming.urgent.empty()) {
    for (const std::int32_t record : incoming.urgent) receive(record);
    incoming.urgent.clear();
    while (flush_urgent && queue_.front() <= step + 1 && flush_some(false)) {
    }
  }
  for (const std::int32_t record : incoming.records)
    if (at(record).stage == Stage::kPlanned) receive(record);  // else it was urgent
  incoming.records.clear();
}

void FlushWorker::receive(std::int32_t record) {
  at(record).stage = Stage::kReceived;
  if (rows_.find(at(record).row)->first == record) enqueue(record);  // else it waits behind an older one of its row
}

void FlushWorker::enqueue(std::int32_t record) {
  Record& queued = at(record);
  queued.stage = Stage::kQueued;
  if (mutated(Mutation::kOnlyReceivedCounts)) count(queued.due, +1);
  queue_.enqueue(record, queued.due);
}

// ---- flushing

std::int64_t FlushWorker::next_level() {
  if (mutated(Mutation::kRandomOrder)) {
    random_ = random_ * 6364136223846793005ull + 1442695040888963407ull;
    const std::int64_t due =
        open_ + static_cast<std::int64_t>((random_ >> 33) % static_cast<std::uint64_t>(window_ + 2));
    taken_.clear();
    if (due > registered_) return kNever;
    return due;
  }
  return queue_.front();
}

bool FlushWorker::flush_some(bool register_between) {
  if (queue_.empty()) return false;
  const std::int64_t level = next_level();
  if (level == kNever && mutated(Mutation::kInfinityNeverDrained)) return false;
  taken_.clear();
  queue_.take(level, kFlushChunk, taken_);
  for (const std::int32_t record : taken_) {
    at(record).stage = Stage::kWriting;
    if (mutated(Mutation::kWritingNotCounted)) count(at(record).due, -1);
  }
  if (mutated(Mutation::kWritingNotCounted)) publish_open();
  for (std::size_t i = 0; i < taken_.size(); ++i) {
    if (register_between && i % kRegisterEvery == 0 && i > 0) register_steps();
    FRUGAL_SYNC_POINT("worker:writing", at(taken_[i]).row);
    if (i + kRecordsAhead < taken_.size()) {
      const Record& next = at(taken_[i + kRecordsAhead]);
      if (next.gradient == kNone) writer_.prefetch(next.row, next.rank, next.position);
    }
    write(taken_[i]);
    land(taken_[i]);
  }
  count_releases();
  publish_open();
  return true;
}

void FlushWorker::write(std::int32_t index) {
  Record& record = at(index);
  std::int64_t bytes = 0;
  if (record.gradient == kNone) {
    writer_.write_value(record.row, record.rank, record.position);
    bytes = writer_.value_bytes();
    add(counters_.values, 1);
  } else {
    std::vector<GradientSource>& sources = gradients_[static_cast<std::size_t>(record.gradient)];
    if (mutated(Mutation::kReceiveOrder)) {  // each rank's entries as they came
      for (const int rank : receive_order_) {
        std::vector<GradientSource> of_rank;
        for (const GradientSource& source : sources)
          if (source.rank == rank) of_rank.push_back(source);
        writer_.apply_gradients(record.row, record.block, of_rank);
      }
    } else {
      bytes = writer_.apply_gradients(record.row, record.block, sources);
    }
    add(counters_.gradients, 1);
  }
  add(counters_.bytes, bytes);
}

void FlushWorker::land(std::int32_t index) {
  const Record record = at(index);
  if (!mutated(Mutation::kWritingNotCounted)) count(record.due, -1);
  if (record.gradient == kNone) {
    if (record.write_back) segment_->rank(record.rank).landed_back.value.fetch_add(1, std::memory_order_release);
    release_staging(record.rank, record.block);
    wake_ranks_ |= record.write_back;
  } else {
    std::vector<GradientSource>& sources = gradients_[static_cast<std::size_t>(record.gradient)];
    for (const GradientSource& source : sources)
      if (source.entry == 0) release_staging(source.rank, record.block);
    free_gradients_.push_back(record.gradient);
  }
  RowRecords* of_row = rows_.find(record.row);
  of_row->first = record.behind;
  free_records_.push_back(index);
  if (record.behind == kNone)
    rows_.erase(record.row);
  else if (at(record.behind).stage == Stage::kReceived)
    enqueue(record.behind);
}

void FlushWorker::release_staging(int rank, std::int64_t block) {
  if (release_count_ > 0 && (rank != release_rank_ || block != release_block_)) count_releases();
  release_rank_ = rank;
  release_block_ = block;
  ++release_count_;
}

void FlushWorker::count_releases() {
  if (release_count_ == 0) return;
  // Release: the rank that sees zero may overwrite the bytes that were read here.
  const std::int64_t before =
      segment_->block(release_rank_, release_block_).remaining.fetch_sub(release_count_, std::memory_order_acq_rel);
  wake_ranks_ |= before == release_count_;
  release_count_ = 0;
}

// ---- the gate

void FlushWorker::count(std::int64_t due, int change) {
  if (due != kNever && due >= open_) due_counts_[static_cast<std::size_t>(due & (due_ring_ - 1))] += change;
}

// Steps are open up to the first one that a record is due at, and no further than is registered. This never moves back:
// what is registered later is due later.
void FlushWorker::publish_open() {
  const std::int64_t limit = registered_ + (mutated(Mutation::kRegisteredOneStepLate) ? 1 : 0);
  std::int64_t open = open_;
  while (open < limit && due_counts_[static_cast<std::size_t>(open & (due_ring_ - 1))] <= 0) ++open;
  if (open != open_) {
    open_ = open;
    queue_.advance(open);
    segment_->opened(index_).value.store(static_cast<std::uint64_t>(open), std::memory_order_release);
    wake_ranks_ = true;
  }
  if (wake_ranks_) {
    wake_ranks_ = false;
    segment_->gate().notify();
  }
}

}  // namespace frugal
