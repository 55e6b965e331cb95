#include "engine/engine_client.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>
#include <utility>

#include "engine/p2f/flush_counters.h"
#include "engine/given_rows.h"
#include "engine/row_list.h"
#include "engine/segment.h"
#include "engine/step_counts.h"
#include "engine/testing.h"

namespace frugal {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kPeerMicroseconds = 50;  // how often to look at what a device of another rank has published

std::int64_t nanoseconds_since(Clock::time_point start) { return (Clock::now() - start).count(); }

}  // namespace

struct EngineClient::Executed {
  std::vector<std::int64_t> slot_row;  // what each slot of the cache holds now; -1: nothing
  std::int64_t steps = 0;              // noted as published
  std::uint64_t write_backs = 0;       // noted as published
  std::int64_t tail_block = 0;         // every older block of staging has landed
  std::int64_t room_until = 0;         // staging has room up to this step, as last seen
  std::int64_t drains = 0;
};

EngineClient::EngineClient(std::shared_ptr<Segment> segment, int rank, std::shared_ptr<GivenRows> given)
    : segment_(std::move(segment)), rank_(rank), given_(std::move(given)), executed_(std::make_unique<Executed>()) {
  if (rank < 0 || rank >= segment_->shape().ranks)
    throw std::invalid_argument("Rank " + std::to_string(rank) + " is none of the engine's " +
                                std::to_string(segment_->shape().ranks) + " ranks.");
  executed_->slot_row.assign(static_cast<std::size_t>(segment_->rank(rank).cache_slots), -1);
  segment_->rank(rank).pid.store(getpid(), std::memory_order_release);
  segment_->planning().notify();
}

EngineClient::~EngineClient() { segment_->rank(rank_).pid.store(kClosed, std::memory_order_release); }

void EngineClient::check() const {
  if (segment_->failed()) throw EngineError(segment_->error());
}

int EngineClient::ranks() const { return segment_->shape().plans; }

void EngineClient::count_from(std::int64_t step) { segment_->first_step().store(step, std::memory_order_relaxed); }

void EngineClient::register_step(std::int64_t step, std::span<const std::int64_t> rows,
                                 std::span<const std::int32_t> occurrences, std::shared_ptr<const void> owner) {
  check();
  const SegmentShape& shape = segment_->shape();
  RankArea& area = segment_->rank(rank_);
  const auto registered = static_cast<std::int64_t>(area.registered.value.load(std::memory_order_relaxed));
  const auto published = static_cast<std::int64_t>(area.published.value.load(std::memory_order_acquire));
  const auto count = static_cast<std::int64_t>(rows.size());
  if (step != registered)
    throw std::logic_error("Step " + std::to_string(step) + " was registered where step " + std::to_string(registered) +
                           " comes next.");
  if (step > published + shape.lookahead)
    throw std::logic_error("Step " + std::to_string(step) + " is beyond the lookahead of " +
                           std::to_string(shape.lookahead) + " steps after step " + std::to_string(published) + ".");
  if (count > shape.max_rows)
    throw std::invalid_argument("A step of " + std::to_string(count) +
                                " rows was registered; the engine was made for " + std::to_string(shape.max_rows) +
                                ".");
  // Of ranks that run the same steps one says which rows; the others' need not even be read.
  const bool says_rows = !shape.same_steps() || rank_ == 0;
  const bool copies_rows = says_rows && (given_ == nullptr || owner == nullptr);
  if (copies_rows && !is_row_list(rows, shape.rows)) refuse_row_list(rows, shape.rows);
  const bool needs_occurrences = shape.plans > 1;
  if (needs_occurrences && occurrences.size() != rows.size() * static_cast<std::size_t>(shape.entries))
    throw std::invalid_argument("A step needs the number of occurrences of each row in each of the " +
                                std::to_string(shape.entries) + " entries.");
  if (needs_occurrences && std::any_of(occurrences.begin(), occurrences.end(), [](std::int32_t n) { return n < 0; }))
    throw std::invalid_argument("A number of occurrences is negative.");
  // The cell was last used by step - window, which this rank has published and the planner has planned.
  if (shape.same_steps()) wait_for_other_ranks(step - shape.lookahead);
  if (says_rows) {
    segment_->inbox_count(rank_, step) = count;
    if (copies_rows)
      std::copy(rows.begin(), rows.end(), segment_->inbox_rows(rank_, step));
    else
      given_->give(step, rows.data(), std::move(owner));
  }
  if (needs_occurrences) std::copy(occurrences.begin(), occurrences.end(), segment_->inbox_occurrences(rank_, step));
  area.registered.value.store(static_cast<std::uint64_t>(step) + 1, std::memory_order_release);
  // To wake the planner takes a system call. Whoever alone says which rows are next leaves it asleep until half the
  // steps that may be planned ahead are not; who needs a plan sooner asks for it.
  if (shape.plans > 1 || step + 1 - planned_steps() > shape.lookahead / 2) segment_->planning().notify();
}

// Until all ranks have published `steps` steps. A device that does so notifies nobody.
void EngineClient::wait_for_other_ranks(std::int64_t steps) {
  if (rank_ != 0) return;  // who says which rows are next waits for all
  const auto published = [&] {
    for (int r = 0; r < segment_->shape().ranks; ++r) {
      const bool left = segment_->rank(r).pid.load(std::memory_order_acquire) == kClosed;
      const auto steps_of_rank =
          static_cast<std::int64_t>(segment_->rank(r).published.value.load(std::memory_order_acquire));
      if (steps_of_rank >= steps) continue;
      if (left)
        segment_->fail("Rank " + std::to_string(r) + " left before step " + std::to_string(steps_of_rank) +
                       ", which other ranks wait for.");
      return false;
    }
    return true;
  };
  if (!segment_->wait(segment_->gate(), published, kPeerMicroseconds)) check();
}

StepPlan EngineClient::plan(std::int64_t step) {
  RankArea& area = segment_->rank(rank_);
  const auto decided = [&] {
    return segment_->planned().value.load(std::memory_order_acquire) > static_cast<std::uint64_t>(step);
  };
  check();
  if (!decided()) {
    const auto start = Clock::now();
    area.wanted.value.store(static_cast<std::uint64_t>(step) + 1, std::memory_order_release);
    segment_->planning().notify();
    if (!segment_->wait(segment_->gate(), decided)) check();
    add(area.plan_wait, nanoseconds_since(start));
  }
  return segment_->plan(rank_, step);
}

std::span<const char> EngineClient::plan_cell(std::int64_t step) {
  plan(step);
  return {segment_->plan_cell(rank_, step), static_cast<std::size_t>(plan_fields().bytes)};
}

PlanFields EngineClient::plan_fields() const { return segment_->shape().plan(); }
std::int64_t EngineClient::planned_steps() const {
  return static_cast<std::int64_t>(segment_->planned().value.load(std::memory_order_acquire));
}
std::int64_t EngineClient::plan_cells() const { return segment_->shape().window; }
std::int64_t EngineClient::max_rows() const { return segment_->shape().max_rows; }
std::int64_t EngineClient::slots() const { return segment_->rank(rank_).cache_slots; }

std::span<const WriteBack> EngineClient::write_backs(std::int64_t step) {
  check();
  Executed& mine = *executed_;
  const std::int64_t capacity = segment_->shape().staging_floats;
  // Whether everything that the plan of `block` sends fits behind what has not landed. Blocks land in any order, but
  // their bytes are given back in the order of blocks.
  const auto has_room = [&](std::int64_t block) {
    if (block < mine.room_until) return true;
    const Block& wanted = segment_->block(rank_, block);
    std::int64_t begin = wanted.begin.load(std::memory_order_relaxed);
    while (mine.tail_block < block && segment_->landed(rank_, mine.tail_block, &begin)) ++mine.tail_block;
    if (wanted.end - begin > capacity && !mutated(Mutation::kSharedBuffer)) return false;
    mine.room_until = block + 1;
    return true;
  };
  const std::int64_t decided = planned_steps();
  if (step < decided && !has_room(step)) {
    const auto start = Clock::now();
    if (!segment_->wait(segment_->gate(), [&] { return has_room(step); })) check();
    add(segment_->rank(rank_).staging_stall, nanoseconds_since(start));
  }
  const std::uint64_t end = segment_->requested(rank_).value.load(std::memory_order_acquire);
  std::span<const WriteBack> requests = segment_->requests(rank_, mine.write_backs);  // a span does not wrap
  requests = requests.first(std::min(requests.size(), static_cast<std::size_t>(end - mine.write_backs)));
  const auto waits = std::ranges::find_if(requests, [&](const WriteBack& request) {
    return request.after >= step || request.block >= decided || !has_room(request.block);
  });
  return {requests.begin(), waits};
}

void EngineClient::publish_write_backs(std::int64_t count) {
  note_write_backs(count);
  segment_->rank(rank_).written_back.value.fetch_add(static_cast<std::uint64_t>(count), std::memory_order_release);
  segment_->work().notify();
}

void EngineClient::note_write_backs(std::int64_t count) {
  Executed& mine = *executed_;
  for (auto left = static_cast<std::size_t>(count); left > 0;) {
    std::span<const WriteBack> requests = segment_->requests(rank_, mine.write_backs);
    requests = requests.first(std::min(requests.size(), left));
    for (const WriteBack& request : requests) mine.slot_row[static_cast<std::size_t>(request.slot)] = -1;
    mine.write_backs += requests.size();
    left -= requests.size();
  }
  add(segment_->rank(rank_).write_backs, count);
}

bool EngineClient::gate_open(std::int64_t step) const {
  for (int worker = 0; worker < segment_->shape().workers; ++worker)
    if (segment_->opened(worker).value.load(std::memory_order_acquire) <= static_cast<std::uint64_t>(step))
      return false;
  return true;
}

std::int64_t EngineClient::wait_gate(std::int64_t step) {
  check();
  if (segment_->planned().value.load(std::memory_order_acquire) <= static_cast<std::uint64_t>(step))
    throw std::logic_error("The gate of step " + std::to_string(step) + " was asked for before its plan.");
  if (executed_->write_backs < segment_->block(rank_, step).requests_end)
    throw std::logic_error("Write-backs are due before the gate of step " + std::to_string(step) + ".");
  FRUGAL_SYNC_POINT("rank:gate", step);
  if (segment_->shape().reads_follow_stores()) return 0;
  RankArea& area = segment_->rank(rank_);
  if (gate_open(step)) return 0;
  const auto start = Clock::now();
  const auto others_finished = [&] {
    for (int r = 0; r < segment_->shape().ranks; ++r)
      if (segment_->rank(r).published.value.load(std::memory_order_acquire) < static_cast<std::uint64_t>(step))
        return false;
    return true;
  };
  if (!segment_->wait(segment_->gate(), [&] { return others_finished() || gate_open(step); })) check();
  add(area.peer_wait, nanoseconds_since(start));
  if (!segment_->wait(segment_->gate(), [&] { return gate_open(step); })) check();
  const std::int64_t waited = nanoseconds_since(start);
  add(area.gate_stall, waited);
  add(area.steps_with_stall, 1);
  return waited;
}

void EngineClient::publish(std::int64_t step) {
  note_published(step);
  FRUGAL_SYNC_POINT("rank:publish", step);
  segment_->rank(rank_).published.value.store(static_cast<std::uint64_t>(step) + 1, std::memory_order_release);
  segment_->work().notify();
  segment_->gate().notify();  // for rank 0 in wait_for_other_ranks
}

void EngineClient::note_published(std::int64_t step) {
  check();
  Executed& mine = *executed_;
  if (step != mine.steps)
    throw std::logic_error("Step " + std::to_string(step) + " was published where step " + std::to_string(mine.steps) +
                           " comes next.");
  const StepPlan done = plan(step);
  const StepCounts& counts = segment_->counts(rank_, step);
  const std::size_t rows = done.rows.size();
  const auto slots = static_cast<std::int32_t>(segment_->rank(rank_).cache_slots);
  const std::int64_t came_in = counts.kept - counts.hits - counts.staying;
  for (std::size_t i = 0; came_in > 0 && i < rows; ++i)  // a hit stays where it is
    if (done.leave[i] == RowDestination::kCache && !is_hit(done, i, slots) && !stays_in_buffer(done, i, slots))
      mine.slot_row[static_cast<std::size_t>(done.target[i])] = done.rows[i];
  std::int64_t vectors = 0;
  for (std::size_t i = 0; counts.gradients > 0 && i < rows; ++i)
    for (std::int32_t entry = 0; done.leave[i] == RowDestination::kGradient && entry < segment_->shape().entries;
         ++entry)
      vectors += segment_->inbox_occurrences(rank_, step)[static_cast<std::size_t>(entry) * rows + i];
  RankArea& area = segment_->rank(rank_);
  add(area.cache_reads, counts.hits);
  add(area.host_reads, static_cast<std::int64_t>(rows) - counts.hits);  // also those of the write-back buffer
  add(area.buffer_reads, counts.buffered);
  add(area.gradients, counts.gradients);
  add(area.write_backs, counts.evicted);
  add(area.gradient_vectors, vectors);
  add(area.values, static_cast<std::int64_t>(rows) - counts.kept - counts.gradients);
  add(area.steps, 1);
  ++mine.steps;
}

std::vector<CachedRow> EngineClient::drain() {
  check();
  Executed& mine = *executed_;
  const int ranks = segment_->shape().ranks;
  segment_->rank(rank_).drain_entered.value.store(static_cast<std::uint64_t>(++mine.drains), std::memory_order_release);
  segment_->gate().notify();
  const auto everybody_here = [&] {
    for (int r = 0; r < ranks && !segment_->shape().same_steps(); ++r)
      if (segment_->rank(r).drain_entered.value.load(std::memory_order_acquire) <
          static_cast<std::uint64_t>(mine.drains))
        return false;
    return true;
  };
  if (!segment_->wait(segment_->gate(), everybody_here)) check();
  for (int r = 0; r < ranks && !segment_->shape().same_steps(); ++r)
    if (static_cast<std::int64_t>(segment_->rank(r).published.value.load(std::memory_order_acquire)) != mine.steps)
      throw std::logic_error("The ranks asked for a drain after different steps.");
  // Blocks up to the last step hold everything that was sent for those steps; write-backs that left ahead of the step
  // that asked for them are counted on their own.
  std::vector<std::int64_t> tail(static_cast<std::size_t>(ranks),
                                 std::max<std::int64_t>(0, mine.steps - segment_->shape().block_ring));
  const auto landed = [&] {
    for (int r = 0; r < ranks; ++r) {
      std::int64_t& block = tail[static_cast<std::size_t>(r)];
      while (block < mine.steps && segment_->landed(r, block)) ++block;
      RankArea& area = segment_->rank(r);
      if (block < mine.steps || area.landed_back.value.load(std::memory_order_acquire) !=
                                    area.written_back.value.load(std::memory_order_acquire))
        return false;
    }
    return true;
  };
  const bool landing = !segment_->shape().reads_follow_stores() && !mutated(Mutation::kInfinityNeverDrained);
  if (landing && !segment_->wait(segment_->gate(), landed)) check();
  std::vector<CachedRow> cached;
  for (std::size_t slot = 0; slot < mine.slot_row.size(); ++slot)
    if (mine.slot_row[slot] >= 0) cached.push_back({mine.slot_row[slot], static_cast<std::int32_t>(slot)});
  if (segment_->shape().keeps_reused) add_buffered(cached);
  return cached;
}

// Values that stayed in their slots, which are those of the last steps, for a step that has not run.
void EngineClient::add_buffered(std::vector<CachedRow>& cached) const {
  const std::int64_t end = executed_->steps;
  for (std::int64_t step = std::max<std::int64_t>(0, end - segment_->shape().write_back_steps); step < end; ++step) {
    const StepPlan done = segment_->plan(rank_, step);
    for (std::size_t i = 0; i < done.rows.size(); ++i) {
      if (!stays_in_buffer(done, i, segment_->rank(rank_).cache_slots)) continue;
      bool is_newest = true;
      for (std::int64_t later = step + 1; later < end; ++later)
        is_newest &= !std::ranges::binary_search(segment_->plan(rank_, later).rows, done.rows[i]);
      if (is_newest) cached.push_back({done.rows[i], static_cast<std::int32_t>(done.target[i])});
    }
  }
}

void EngineClient::finish_drain() {
  check();
  segment_->rank(rank_).drain_left.value.store(static_cast<std::uint64_t>(executed_->drains),
                                               std::memory_order_release);
  segment_->gate().notify();
  const auto everybody_left = [&] {
    for (int r = 0; r < segment_->shape().ranks && !segment_->shape().same_steps(); ++r)
      if (segment_->rank(r).drain_left.value.load(std::memory_order_acquire) <
          static_cast<std::uint64_t>(executed_->drains))
        return false;
    return true;
  };
  if (!segment_->wait(segment_->gate(), everybody_left)) check();
}

std::span<char> EngineClient::shared_memory() const {
  return {static_cast<char*>(segment_->data()), static_cast<std::size_t>(segment_->bytes())};
}

std::span<float> EngineClient::staging() { return staging_of(rank_); }

std::span<float> EngineClient::staging_of(int rank) {
  if (rank < 0 || rank >= segment_->shape().ranks) throw std::invalid_argument("There is no such rank.");
  return {segment_->staging(rank), static_cast<std::size_t>(segment_->shape().staging_floats)};
}

std::atomic<std::uint64_t>* EngineClient::published_counter() { return &segment_->rank(rank_).published.value; }
std::atomic<std::uint64_t>* EngineClient::write_backs_counter() { return &segment_->rank(rank_).written_back.value; }

RankStatistics EngineClient::statistics() const { return statistics_of(segment_->rank(rank_)); }

RankStatistics statistics_of(const RankArea& area) {
  const auto get = [](const std::atomic<std::int64_t>& value) { return value.load(std::memory_order_relaxed); };
  return {get(area.steps),         get(area.steps_with_stall), get(area.gate_stall),   get(area.peer_wait),
          get(area.staging_stall), get(area.plan_wait),        get(area.cache_reads),  get(area.host_reads),
          get(area.buffer_reads),  get(area.values),           get(area.gradients),    get(area.write_backs),
          get(area.gradient_vectors)};
}

void EngineClient::fail(const char* sentence) { segment_->fail(sentence); }

}  // namespace frugal
