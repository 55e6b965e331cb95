#include "engine/planner.h"

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <string>
#include <utility>

#include "engine/testing.h"
#include "parallel/thread_pool.h"

namespace frugal {
namespace {

// Rows ahead that memory is asked for: enough misses at a time to hide most of each.
constexpr std::size_t kPrefetch = 24;

constexpr std::int64_t kNoRow = -1;
constexpr std::int64_t kGrain = 1024;  // rows of a range that one thread looks up
constexpr int kMostThreads = 4;        // by default

int planner_threads(const EngineConfig& config) {
  return config.planner_threads > 0 ? config.planner_threads : std::clamp(usable_cores() / 4, 1, kMostThreads);
}

bool any_wants(const EngineConfig& config, bool (CachePolicy::*wants)() const) {
  return std::ranges::any_of(config.caches, [&](const auto& cache) { return ((*cache).*wants)(); });
}

std::int64_t cache_slots(Segment& segment) {
  std::int64_t slots = 0;
  for (int r = 0; r < segment.shape().plans; ++r) slots += segment.rank(r).cache_slots;
  return slots;
}

}  // namespace

Planner::Planner(const EngineConfig& config, std::shared_ptr<Segment> segment, std::vector<Inbox*> inboxes)
    : config_(config),
      segment_(std::move(segment)),
      inboxes_(std::move(inboxes)),
      plans_(segment_->shape().plans),
      caching_(!config.caches.empty() && config.mode != FlushMode::kOff),
      keeps_values_in_staging_(config.value_path == ValuePath::kStaging),
      keeps_records_(segment_->shape().workers > 0),
      settled_(plans_ == 1 && !keeps_records_ && !keeps_values_in_staging_ && caching_ &&
               config.caches[0]->keeps_for_good()),
      wants_next_use_(caching_ && any_wants(config, &CachePolicy::wants_next_use)),
      staging_floats_(segment_->shape().staging_floats),
      horizon_(std::min(config.horizon, RowUses::kSteps - 1)),
      parts_(static_cast<std::size_t>(plans_)),
      in_flight_(cache_slots(*segment_) + 1, segment_->shape().max_rows, segment_->shape().in_flight_steps) {
  if (planner_threads(config) > 1 && plans_ == 1 && caching_ && segment_->shape().max_rows >= 2 * kGrain)
    lookups_ = std::make_unique<TaskTeam>(planner_threads(config));
  std::int64_t slots = 0;
  for (int r = 0; r < plans_; ++r) {
    Part& mine = part(r);
    mine.cache = caching_ ? config.caches[static_cast<std::size_t>(r)].get() : nullptr;
    mine.first_place = static_cast<std::int32_t>(slots);
    slots += segment_->rank(r).cache_slots;
  }
  slots_.resize(static_cast<std::size_t>(slots));
  const bool uses = wants_next_use_ || (caching_ && any_wants(config, &CachePolicy::wants_count));
  if (caching_ || in_flight_.any()) cells_ = RowCells(config.rows, uses ? plans_ : 0);
  for (Part& mine : parts_) mine.uses.resize(static_cast<std::size_t>(uses ? segment_->shape().max_rows : 0));
  bytes_ = static_cast<std::int64_t>(cells_.bytes() + slots_.size() * sizeof(Slot) + in_flight_.bytes());
}

Planner::~Planner() = default;

void Planner::run(const std::atomic<bool>& stopping) {
  RoleScope scope(thread_);
  for (std::int64_t step = 0;; ++step) {
    const auto decidable = [&] { return stopping.load(std::memory_order_acquire) || ready(step); };
    if (!segment_->wait(segment_->planning(), decidable)) return;
    if (stopping.load(std::memory_order_acquire)) return;
    const auto start = std::chrono::steady_clock::now();
    decide(step);
    nanoseconds_ += (std::chrono::steady_clock::now() - start).count();
  }
}

// All ranks have registered the step and, so that the next use is known, `horizon` more; or one waits for it. The block
// ring and the inboxes have room: what they hold of old steps lands without the planner's help.
bool Planner::ready(std::int64_t step) const {
  bool wanted = false;
  std::uint64_t registered = ~0ull;
  for (int r = 0; r < config_.ranks; ++r) {
    const RankArea& area = segment_->rank(r);
    wanted |= area.wanted.value.load(std::memory_order_acquire) > static_cast<std::uint64_t>(step);
    if (r >= plans_) continue;
    registered = std::min(registered, area.registered.value.load(std::memory_order_acquire));
    // The cell of step - block_ring is reused; a fresh cell has nothing remaining.
    if (segment_->block(r, step).remaining.load(std::memory_order_acquire) != 0) return false;
  }
  const std::uint64_t needed =
      static_cast<std::uint64_t>(step) + 1 + (wanted ? 0 : static_cast<std::uint64_t>(horizon_));
  return registered >= needed &&
         std::all_of(inboxes_.begin(), inboxes_.end(), [](const Inbox* inbox) { return inbox->has_room(); });
}

void Planner::start(std::int64_t step) {
  step_ = step;
  for (Inbox* inbox : inboxes_) inbox->next().clear(step);
  std::vector<std::int64_t>& forgotten = changed_in(step);
  for (const std::int64_t row : forgotten)
    if (const std::int64_t* last = last_change_.find(row); last != nullptr && *last + kLateSteps < step)
      last_change_.erase(row);
  forgotten.clear();
  for (int r = 0; r < plans_; ++r) {
    Part& mine = part(r);
    mine.rows = segment_->inbox_rows(r, step);
    mine.occurrences = segment_->inbox_occurrences(r, step);
    mine.count = segment_->inbox_count(r, step);
    mine.head = 0;
    mine.source = segment_->plan_source(r, step);
    mine.leave = segment_->plan_leave(r, step);
    mine.target = segment_->plan_target(r, step);
    mine.begin = mutated(Mutation::kSharedBuffer) ? 0 : mine.end;
    mine.end = mine.begin;
    mine.records = 0;
    mine.requested = segment_->requested(r).value.load(std::memory_order_relaxed);
    mine.waiting.clear();
    if (wants_next_use_) see_registered(r);
  }
  candidates_.clear();
}

// Uses as far ahead as the horizon, whatever is registered already, so that policies decide alike in every run.
void Planner::see_registered(std::int32_t rank) {
  Part& mine = part(rank);
  const std::uint64_t registered = segment_->rank(rank).registered.value.load(std::memory_order_acquire);
  const std::int64_t end = std::min(static_cast<std::int64_t>(registered), step_ + horizon_ + 1);
  for (mine.seen = std::max(mine.seen, step_ + 1); mine.seen < end; ++mine.seen) {
    const std::int64_t* const rows = segment_->inbox_rows(rank, mine.seen);
    const std::int64_t count = segment_->inbox_count(rank, mine.seen);
    constexpr auto kAhead = static_cast<std::int64_t>(kPrefetch);
    for (std::int64_t i = 0; i < count; ++i) {
      if (i + kAhead < count) cells_.prefetch(rows[i + kAhead]);
      RowUses uses = cells_.uses(rows[i], rank);
      uses.see(mine.seen);
      cells_.set_uses(rows[i], rank, uses);
    }
  }
}

void Planner::decide(std::int64_t step) {
  start(step);
  for (Part& mine : parts_) locate(mine);
  if (plans_ == 1)
    visit_alone();
  else
    visit_together();
  admit_candidates();
  finish();
}

// Where the rows of the list are: for all of them before any is visited. A visit moves no row but its own.
void Planner::locate(Part& mine) {
  const RowLookup lookup(cells_, static_cast<std::int64_t>(slots_.size()), in_flight_, step_);
  const int rank = static_cast<int>(&mine - parts_.data());
  const CachePolicy* const settled = settled_ ? mine.cache : nullptr;
  mine.located.resize(static_cast<std::size_t>(ranges_of(mine)));
  in_ranges(mine, [&](std::int64_t r, std::int64_t begin, std::int64_t end) {
    LocatedRows& located = mine.located[static_cast<std::size_t>(r)];
    lookup.locate(mine.rows, begin, end, rank, mine.source, mine.uses.empty() ? nullptr : mine.uses.data(), located);
    if (settled != nullptr)
      lookup.plan_settled(mine.rows, begin, end, *settled, located, mine.source, mine.leave, mine.target);
  });
}

std::int64_t Planner::ranges_of(const Part& mine) const {
  return lookups_ ? std::clamp<std::int64_t>(mine.count / kGrain, 1, TaskTeam::kMostTasks) : 1;
}

template <class Work>
void Planner::in_ranges(const Part& mine, const Work& work) const {
  const std::int64_t ranges = ranges_of(mine);
  if (ranges == 1) return work(0, 0, mine.count);
  lookups_->run(ranges, [&](std::int64_t r) { work(r, mine.count * r / ranges, mine.count * (r + 1) / ranges); });
}

// All rows have been found, and what leaves is known.
void Planner::leave_in_flight(Part& mine) {
  if (!in_flight_.any()) return;
  InFlightSlots* const in_flight = &in_flight_;  // for the threads, while this one waits for them
  const std::int64_t step = step_;
  in_ranges(mine, [&](std::int64_t, std::int64_t begin, std::int64_t end) {
    in_flight->leave(step, mine.rows, begin, end, mine.leave, mine.target);
  });
}

void Planner::visit_alone() {
  const Part& mine = part(0);
  const auto prefetch = [&](std::int64_t index) FRUGAL_REQUIRES(thread_) {
    const std::int32_t place = mine.source[index];
    __builtin_prefetch(&slots_[static_cast<std::size_t>(place)], 1);
    mine.cache->prefetch_touch(mine.rows[index], place);
  };
  for (const LocatedRows& located : mine.located) {
    const std::vector<std::int64_t>& found = located.found;
    for (std::size_t f = 0; f < std::min(kPrefetch, found.size()) && !settled_; ++f) prefetch(found[f]);
    for (std::size_t f = 0; f < found.size() && !settled_; ++f) {
      if (f + kPrefetch < found.size()) prefetch(found[f + kPrefetch]);
      hit(0, found[f]);
    }
    for (const std::int64_t index : located.missed) {
      miss(mine.rows[index]);
      candidates_.push_back({0, index});
    }
  }
}

// Merges the ranks' ascending lists: each distinct row once, with its users in rank order.
void Planner::visit_together() {
  while (true) {
    std::int64_t row = kNever;
    for (const Part& mine : parts_)
      if (mine.head < mine.count) row = std::min(row, mine.rows[mine.head]);
    if (row == kNever) break;
    users_.clear();
    std::int32_t place = kFromHost;
    for (int r = 0; r < plans_; ++r) {
      Part& mine = part(r);
      if (mine.head == mine.count || mine.rows[mine.head] != row) continue;
      place = std::exchange(mine.source[mine.head], kFromHost);
      users_.push_back({r, mine.head++});
    }
    if (place != kFromHost && users_.size() == 1 && users_[0].rank == rank_of(place)) {
      part(users_[0].rank).source[users_[0].index] = place;
      hit(users_[0].rank, users_[0].index);
      continue;
    }
    if (segment_->shape().meets && (changes(row) || place != kFromHost))
      for (const User& user : users_) part(user.rank).source[user.index] = kFromHostLate;
    if (place != kFromHost)
      pull_back(row, place);
    else
      miss(row);
    if (users_.size() > 1)
      send_gradients(row, users_);
    else
      candidates_.push_back(users_[0]);
  }
}

// The row is in the cache of the one rank that uses it: nothing travels.
void Planner::hit(std::int32_t rank, std::int64_t index) {
  const Part& mine = part(rank);
  const std::int32_t place = mine.source[index], slot = place - mine.first_place;
  slots_[static_cast<std::size_t>(place)].since = step_;
  mine.cache->touch(use(mine, index), slot);
  mine.source[index] = slot;
  mine.plan(index, RowDestination::kCache, slot);
}

// The row is read from host, and was there before.
void Planner::miss(std::int64_t row) {
  if (keeps_records_ && !mutated(Mutation::kDeadlineNotMoved))
    operations_of(row).operations.push_back({.kind = Operation::Kind::kRead, .row = row, .due = step_});
}

// The row's value in host memory changes with this step. Returns whether one of the last kLateSteps has changed it.
bool Planner::changes(std::int64_t row) {
  const std::size_t known = last_change_.size();
  last_change_[row] = step_;
  changed_in(step_).push_back(row);
  return last_change_.size() == known;
}

// The row is in a cache, and others read it.
void Planner::pull_back(std::int64_t row, std::int32_t place) {
  const std::int32_t rank = rank_of(place);
  write_back(rank, place, mutated(Mutation::kWriteBackAtInfinity) ? kNever : step_);
  slots_[static_cast<std::size_t>(place)] = {};
  part(rank).cache->release(row, place - part(rank).first_place);
  cells_.place(row) = kFromHost;
}

// In whose cache the place is.
std::int32_t Planner::rank_of(std::int32_t place) const {
  std::int32_t rank = plans_ - 1;
  while (place < parts_[static_cast<std::size_t>(rank)].first_place) --rank;
  return rank;
}

// When all hits of the step are known, so that none of them is evicted. Candidates go through three stages, each of
// which asks for the memory that the next one touches: the policy answers, the row comes in, the one that it puts out
// leaves.
void Planner::admit_candidates() {
  if (!caching_) {
    for (const User& user : candidates_) send_value(user.rank, user.index);
    return;
  }
  admitted_.clear();
  std::size_t in = 0, out = 0;  // of those admitted: how many have come in, and have put out what was there
  const auto move = [&](std::size_t behind) FRUGAL_REQUIRES(thread_) {
    for (; in + behind < admitted_.size(); ++in) take_in(admitted_[in]);
    for (; out + behind < in; ++out)  // no row comes in that leaves with the same step
      if (admitted_[out].evicted != kNoRow) cells_.place(admitted_[out].evicted) = kFromHost;
  };
  for (std::size_t c = 0; c < std::min(kPrefetch, candidates_.size()); ++c) prefetch_candidate(c);
  for (std::size_t c = 0; c < candidates_.size(); ++c) {
    if (c + kPrefetch < candidates_.size()) prefetch_candidate(c + kPrefetch);
    const User& user = candidates_[c];
    const Part& mine = part(user.rank);
    const std::int32_t slot = mine.cache->admit(use(mine, user.index));
    if (slot == kRejected) {
      send_value(user.rank, user.index);
      continue;
    }
    if (slot >= segment_->rank(user.rank).cache_slots)
      throw std::logic_error("A cache policy admitted a row to a slot that the cache does not have.");
    admitted_.push_back({user, mine.first_place + slot, kNoRow});
    __builtin_prefetch(&slots_[static_cast<std::size_t>(admitted_.back().place)], 1);
    cells_.prefetch(mine.rows[user.index]);
    move(kPrefetch);
  }
  move(0);
}

void Planner::prefetch_candidate(std::size_t candidate) {
  const User& user = candidates_[candidate];
  const Part& mine = part(user.rank);
  mine.cache->prefetch(mine.rows[user.index]);
}

void Planner::take_in(Admitted& admitted) {
  const auto& [user, place, evicted] = admitted;
  Slot& slot = slots_[static_cast<std::size_t>(place)];
  const Part& mine = part(user.rank);
  if (slot.row != kNoRow) {
    if (slot.since == step_) throw std::logic_error("A cache policy evicted a row that the same step uses.");
    cells_.prefetch(slot.row);
    write_back(user.rank, place, kNever);
    if (segment_->shape().meets) changes(slot.row);
  }
  admitted.evicted = slot.row;
  slot = {mine.rows[user.index], step_};
  cells_.place(slot.row) = place;
  mine.plan(user.index, RowDestination::kCache, place - mine.first_place);
}

// In sync mode everything lands before the next step; in p2f a record waits for the step that reads it.
std::int64_t Planner::record_due(std::int64_t due) const {
  return config_.mode == FlushMode::kP2F ? due : std::min(due, step_ + 1);
}

void Planner::write_back(std::int32_t rank, std::int32_t place, std::int64_t due) {
  if (mutated(Mutation::kNoWriteBackRequest)) return;
  Part& mine = part(rank);
  const Slot& held = slots_[static_cast<std::size_t>(place)];
  const std::int64_t position = keeps_values_in_staging_ ? allocate(rank, config_.layout.stride) : kInHostRow;
  const WriteBack leaving{.row = held.row,
                          .after = held.since,
                          .target = keeps_values_in_staging_ ? position % staging_floats_ : held.row,
                          .block = step_,
                          .slot = place - mine.first_place,
                          .leave = keeps_values_in_staging_ ? RowDestination::kValue : RowDestination::kHostRow};
  // All steps that lie a window back have run, so what waits for none later may leave at once; that is most.
  if (held.since <= step_ - segment_->shape().window)
    request(rank, leaving, due, position);
  else
    mine.waiting.push_back({leaving, due, position});
}

// Requests are served in their order, so those that may leave first come first.
void Planner::request(std::int32_t rank, const WriteBack& request, std::int64_t due, std::int64_t position) {
  Part& mine = part(rank);
  if (keeps_records_) {
    operations_of(request.row).write_backs.push_back({.kind = Operation::Kind::kWriteBack,
                                                      .rank = rank,
                                                      .row = request.row,
                                                      .due = record_due(due),
                                                      .position = position,
                                                      .sequence = mine.requested});
    ++mine.records;
  }
  segment_->request(rank, mine.requested++) = request;
}

void Planner::send_value(std::int32_t rank, std::int64_t index) {
  Part& mine = part(rank);
  const std::int64_t row = mine.rows[index];
  const std::int64_t position = keeps_values_in_staging_ ? allocate(rank, config_.layout.stride) : kInHostRow;
  if (keeps_values_in_staging_)
    mine.plan(index, RowDestination::kValue, position % staging_floats_);
  else
    mine.plan(index, RowDestination::kHostRow, row);
  if (!keeps_records_) return;
  ++mine.records;
  operations_of(row).operations.push_back(
      {.kind = Operation::Kind::kValue, .rank = rank, .row = row, .due = record_due(kNever), .position = position});
}

void Planner::send_gradients(std::int64_t row, std::span<const User> users) {
  if (!keeps_records_) return stage_gradients(users);
  StepOperations& mine = operations_of(row);
  const std::size_t first = mine.sources.size();
  for (int entry = 0; entry < config_.entries; ++entry)
    for (const User& user : users) {
      const Part& part_of_user = part(user.rank);
      mine.sources.push_back({0, user.rank, part_of_user.occurrences[entry * part_of_user.count + user.index], entry});
    }
  for (std::size_t u = 0; u < users.size(); ++u) {
    const auto source = [&](int entry) -> GradientSource& {
      return mine.sources[first + static_cast<std::size_t>(entry) * users.size() + u];
    };
    std::int64_t vectors = 0;
    for (int entry = 0; entry < config_.entries; ++entry) vectors += source(entry).count;
    std::int64_t position = allocate(users[u].rank, vectors * config_.layout.in_floats().stride);
    Part& sender = part(users[u].rank);
    sender.plan(users[u].index, RowDestination::kGradient, position % staging_floats_);
    ++sender.records;
    for (int entry = 0; entry < config_.entries; ++entry) {
      source(entry).position = position;
      position += source(entry).count * config_.layout.in_floats().stride;
    }
  }
  mine.operations.push_back({.kind = Operation::Kind::kGradient,
                             .row = row,
                             .due = record_due(kNever),
                             .first_source = static_cast<std::uint32_t>(first),
                             .sources = static_cast<std::uint32_t>(mine.sources.size() - first)});
}

// The executors apply them: only their places are planned.
void Planner::stage_gradients(std::span<const User> users) {
  for (const User& user : users) {
    Part& sender = part(user.rank);
    std::int64_t vectors = 0;
    for (int entry = 0; entry < config_.entries; ++entry)
      vectors += sender.occurrences[entry * sender.count + user.index];
    const std::int64_t position = allocate(user.rank, vectors * config_.layout.in_floats().stride);
    sender.plan(user.index, RowDestination::kGradient, position % staging_floats_);
  }
}

// A stretch of the rank's staging that does not wrap. Positions are given out ahead; whether the bytes are free again
// is checked when the rank comes to write them.
std::int64_t Planner::allocate(std::int32_t rank, std::int64_t floats) {
  Part& mine = part(rank);
  if (mine.end % staging_floats_ + floats > staging_floats_) mine.end += staging_floats_ - mine.end % staging_floats_;
  const std::int64_t position = mine.end;
  mine.end += floats;
  if (mine.end - mine.begin > staging_floats_)
    throw std::runtime_error("Step " + std::to_string(step_) + " of rank " + std::to_string(rank) +
                             " sends more than its staging of " + std::to_string(staging_floats_ * 4) +
                             " bytes holds; give the engine more staging_bytes.");
  return position;
}

// Behind the step's rows, for executors that take a plan as a whole.
void Planner::pad(const Part& mine, std::int64_t* rows, std::int32_t scratch) {
  const auto most = segment_->shape().max_rows;
  std::fill(rows + mine.count, rows + most, 0);
  std::fill(mine.source + mine.count, mine.source + most, scratch);
  std::fill(mine.leave + mine.count, mine.leave + most, RowDestination::kCache);
  std::fill(mine.target + mine.count, mine.target + most, scratch);
}

// Hands the step to the ranks and the flush workers.
void Planner::finish() {
  for (int r = 0; r < plans_; ++r) {
    Part& mine = part(r);
    std::ranges::stable_sort(mine.waiting, {}, [](const Waiting& waiting) { return waiting.request.after; });
    for (const auto& [waiting, due, position] : mine.waiting) request(r, waiting, due, position);
    leave_in_flight(mine);
    pad(mine, segment_->inbox_rows(r, step_), static_cast<std::int32_t>(segment_->rank(r).cache_slots));
    segment_->plan_published(r, step_) = step_ + 1;
    Block& block = segment_->block(r, step_);
    block.step.store(step_, std::memory_order_release);
    block.begin.store(mine.begin, std::memory_order_release);
    block.end = mine.end;
    block.requests_end = mine.requested;
    block.remaining.store(mine.records, std::memory_order_release);
    segment_->requested(r).value.store(mine.requested, std::memory_order_release);
  }
  FRUGAL_SYNC_POINT("planner:decided", step_);
  for (Inbox* inbox : inboxes_) inbox->post();
  segment_->work().notify();
  segment_->planned().value.store(static_cast<std::uint64_t>(step_) + 1, std::memory_order_release);
  segment_->gate().notify();
}

RowUse Planner::use(const Part& mine, std::int64_t index) const {
  if (mine.uses.empty()) return {mine.rows[index], step_};
  const auto [count, steps_to_next] = mine.uses[static_cast<std::size_t>(index)];
  return {mine.rows[index], step_, steps_to_next > 0 ? step_ + steps_to_next : kNever, count};
}

StepOperations& Planner::operations_of(std::int64_t row) const {
  return inboxes_[static_cast<std::size_t>(worker_of(row, static_cast<std::int32_t>(inboxes_.size())))]->next();
}

}  // namespace frugal
