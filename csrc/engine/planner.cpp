#include "engine/planner.h"

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <string>

#include "engine/next_use.h"
#include "engine/testing.h"
#include "parallel/thread_pool.h"

namespace frugal {
namespace {

// Rows ahead that memory is asked for: enough misses at a time to hide most of each.
constexpr std::size_t kPrefetch = 24;

constexpr std::int64_t kGrain = 1024;  // rows of a range that one thread looks up
constexpr int kMostThreads = 4;        // by default

int planner_threads(const EngineConfig& config) {
  return config.planner_threads > 0 ? config.planner_threads : std::clamp(usable_cores() / 4, 1, kMostThreads);
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
      staging_floats_(segment_->shape().staging_floats),
      cached_(caching_ ? config.rows : 0),
      slots_(static_cast<std::size_t>(plans_)),
      parts_(static_cast<std::size_t>(plans_)) {
  if (planner_threads(config) > 1 && plans_ == 1 && caching_ && segment_->shape().max_rows >= 2 * kGrain)
    lookups_ = std::make_unique<TaskTeam>(planner_threads(config));
  std::int64_t slots = 0;
  for (int r = 0; r < plans_; ++r) {
    slots_[static_cast<std::size_t>(r)].resize(static_cast<std::size_t>(segment_->rank(r).cache_slots));
    slots += segment_->rank(r).cache_slots;
  }
  directory_.reserve(static_cast<std::size_t>(std::min(slots, config.rows)));
  const bool wanted = caching_ && std::any_of(config.caches.begin(), config.caches.end(),
                                              [](const auto& cache) { return cache->wants_next_use(); });
  if (wanted && config.horizon > 0) next_use_ = std::make_unique<NextUse>(segment_, config.horizon);
  const SegmentShape& shape = segment_->shape();
  if (shape.in_flight_steps > 0)
    in_flight_ = std::make_unique<InFlightSlots>(config.rows, slots + 1, shape.max_rows, shape.in_flight_steps);
  bytes_ = static_cast<std::int64_t>(cached_.bytes() + directory_.bytes() +
                                     static_cast<std::size_t>(slots) * sizeof(Slot) +
                                     (in_flight_ ? in_flight_->bytes() : 0));
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
      static_cast<std::uint64_t>(step) + 1 + (wanted ? 0 : static_cast<std::uint64_t>(config_.horizon));
  return registered >= needed &&
         std::all_of(inboxes_.begin(), inboxes_.end(), [](const Inbox* inbox) { return inbox->has_room(); });
}

void Planner::start(std::int64_t step) {
  step_ = step;
  for (Inbox* inbox : inboxes_) inbox->next().clear(step);
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
    mine.write_backs.clear();
    mine.write_back_operations.clear();
  }
  candidates_.clear();
  if (next_use_) next_use_->see_registered(step);
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

// Which rows of the list are in a cache, and where: for all of them before any is visited, so that what a visit touches
// has been asked for long before. A visit moves no row but its own.
void Planner::locate(Part& mine) {
  const RowLookup lookup(caching_ ? &cached_ : nullptr, directory_);
  LargeArray<Slot>* const slots = slots_.data();  // for the threads, while this one waits for them
  const auto& caches = config_.caches;
  const InFlightSlots* const in_flight = in_flight_.get();
  const bool settled = settled_;
  const auto arriving = [&](const Place& place) {
    const auto rank = static_cast<std::size_t>(place.rank);
    __builtin_prefetch(&slots[rank][static_cast<std::size_t>(place.slot)], 1);
    caches[rank]->prefetch_slot(place.slot);
  };
  const auto range = [&](LocatedRows& located, std::int64_t begin, std::int64_t end) {
    if (settled)  // hits touch nothing
      lookup.locate(mine.rows, begin, end, mine.source, located, [](const Place&) {});
    else
      lookup.locate(mine.rows, begin, end, mine.source, located, arriving);
    if (in_flight != nullptr) in_flight->find(mine.rows, located.missed, mine.source);
    if (settled) lookup.plan_settled(mine.rows, *caches[0], located, mine.source, mine.leave, mine.target);
  };
  mine.located.resize(static_cast<std::size_t>(ranges_of(mine)));
  mine.found_head = 0;
  in_ranges(mine, [&](std::int64_t r, std::int64_t begin, std::int64_t end) {
    range(mine.located[static_cast<std::size_t>(r)], begin, end);
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
  InFlightSlots* const in_flight = in_flight_.get();
  if (in_flight == nullptr) return;
  const std::int64_t step = step_;
  in_ranges(mine, [&](std::int64_t, std::int64_t begin, std::int64_t end) {
    in_flight->leave(step, mine.rows, begin, end, mine.leave, mine.target);
  });
}

void Planner::visit_alone() {
  const Part& mine = part(0);
  for (const LocatedRows& located : mine.located) {
    for (std::size_t f = 0; f < located.found.size() && !settled_; ++f) hit(located.places[f], located.found[f]);
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
    const Place* place = nullptr;
    for (int r = 0; r < plans_; ++r) {
      Part& mine = part(r);
      const LocatedRows& located = mine.located[0];
      if (mine.head == mine.count || mine.rows[mine.head] != row) continue;
      if (mine.found_head < located.found.size() && located.found[mine.found_head] == mine.head)
        place = &located.places[mine.found_head++];
      users_.push_back({r, mine.head++});
    }
    if (place != nullptr && users_.size() == 1 && users_[0].rank == place->rank) {
      hit(*place, users_[0].index);
      continue;
    }
    if (place != nullptr)
      pull_back(row, *place);
    else
      miss(row);
    if (users_.size() > 1)
      send_gradients(row, users_);
    else
      candidates_.push_back(users_[0]);
  }
}

// The row is in the cache of the one rank that uses it: nothing travels.
void Planner::hit(const Place& place, std::int64_t index) {
  const Part& mine = part(place.rank);
  slots_[static_cast<std::size_t>(place.rank)][static_cast<std::size_t>(place.slot)].since = step_;
  config_.caches[static_cast<std::size_t>(place.rank)]->touch(mine.rows[index], place.slot, step_,
                                                              next_use(place.rank, index));
  mine.source[index] = place.slot;
  mine.plan(index, RowDestination::kCache, place.slot);
}

// The row is read from host, and was there before.
void Planner::miss(std::int64_t row) {
  if (keeps_records_ && !mutated(Mutation::kDeadlineNotMoved))
    operations_of(row).operations.push_back({.kind = Operation::Kind::kRead, .row = row, .due = step_});
}

// The row is in a cache, and others read it.
void Planner::pull_back(std::int64_t row, const Place& place) {
  write_back(place.rank, place.slot, mutated(Mutation::kWriteBackAtInfinity) ? kNever : step_);
  config_.caches[static_cast<std::size_t>(place.rank)]->release(row, place.slot);
  leave(row);
}

// When all hits of the step are known, so that none of them is evicted. The policies answer for all candidates before
// anything moves, so that the memory which moving touches can be asked for some rows ahead.
void Planner::admit_candidates() {
  if (!caching_) {
    for (const User& user : candidates_) send_value(user.rank, user.index);
    return;
  }
  for (std::size_t c = 0; c < std::min(kPrefetch, candidates_.size()); ++c) prefetch_candidate(c);
  admitted_.clear();
  for (std::size_t c = 0; c < candidates_.size(); ++c) {
    if (c + kPrefetch < candidates_.size()) prefetch_candidate(c + kPrefetch);
    const User& user = candidates_[c];
    const Admission admission = config_.caches[static_cast<std::size_t>(user.rank)]->admit(
        part(user.rank).rows[user.index], step_, next_use(user.rank, user.index));
    if (!admission.accepted()) {
      send_value(user.rank, user.index);
      continue;
    }
    if (admission.slot >= static_cast<std::int64_t>(slots_[static_cast<std::size_t>(user.rank)].size()))
      throw std::logic_error("A cache policy admitted a row to a slot that the cache does not have.");
    __builtin_prefetch(&slots_[static_cast<std::size_t>(user.rank)][static_cast<std::size_t>(admission.slot)], 1);
    admitted_.push_back({user, admission});
  }
  for (const Admitted& admitted : admitted_) take_in(admitted);
  // The directory in loops of its own, each with one line to wait for: no row comes in that leaves with the same step.
  const auto row_of = [&](const Admitted& admitted) FRUGAL_REQUIRES(thread_) {
    return part(admitted.user.rank).rows[admitted.user.index];
  };
  for (std::size_t a = 0; a < admitted_.size(); ++a) {
    if (a + kPrefetch < admitted_.size()) prefetch_directory(admitted_[a + kPrefetch].admission.evicted_row);
    if (admitted_[a].admission.evicted_row >= 0) leave(admitted_[a].admission.evicted_row);
  }
  for (std::size_t a = 0; a < admitted_.size(); ++a) {
    if (a + kPrefetch < admitted_.size()) directory_.prefetch(row_of(admitted_[a + kPrefetch]));
    enter(row_of(admitted_[a]), {admitted_[a].user.rank, admitted_[a].admission.slot});
  }
}

void Planner::prefetch_candidate(std::size_t candidate) {
  const User& soon = candidates_[candidate];
  config_.caches[static_cast<std::size_t>(soon.rank)]->prefetch(part(soon.rank).rows[soon.index]);
}

void Planner::prefetch_directory(std::int64_t row) {
  if (row < 0) return;
  directory_.prefetch(row);
  cached_.prefetch(row);
}

// The plan and the slot; the directory follows.
void Planner::take_in(const Admitted& admitted) {
  const auto& [user, admission] = admitted;
  Slot& slot = slots_[static_cast<std::size_t>(user.rank)][static_cast<std::size_t>(admission.slot)];
  if (slot.row != admission.evicted_row || (slot.row >= 0 && slot.since == step_))
    throw std::logic_error("A cache policy evicted a row that is not in the slot, or that the same step uses.");
  if (slot.row >= 0) write_back(user.rank, admission.slot, kNever);
  const Part& mine = part(user.rank);
  slot = {mine.rows[user.index], step_};
  if (in_flight_) in_flight_->forget(slot.row);
  mine.plan(user.index, RowDestination::kCache, admission.slot);
}

void Planner::enter(std::int64_t row, const Place& place) {
  cached_.insert(row);
  directory_[row] = place;
}

void Planner::leave(std::int64_t row) {
  cached_.erase(row);
  directory_.erase(row);
}

// In sync mode everything lands before the next step; in p2f a record waits for the step that reads it.
std::int64_t Planner::record_due(std::int64_t due) const {
  return config_.mode == FlushMode::kP2F ? due : std::min(due, step_ + 1);
}

void Planner::write_back(std::int32_t rank, std::int32_t slot, std::int64_t due) {
  Slot& held = slots_[static_cast<std::size_t>(rank)][static_cast<std::size_t>(slot)];
  if (!mutated(Mutation::kNoWriteBackRequest)) {
    Part& mine = part(rank);
    const std::int64_t position = keeps_values_in_staging_ ? allocate(rank, config_.layout.stride) : kInHostRow;
    mine.write_backs.push_back({.row = held.row,
                                .after = held.since,
                                .target = keeps_values_in_staging_ ? position % staging_floats_ : held.row,
                                .block = step_,
                                .slot = slot,
                                .leave = keeps_values_in_staging_ ? RowDestination::kValue : RowDestination::kHostRow});
    if (keeps_records_) {
      mine.write_back_operations.push_back({.kind = Operation::Kind::kWriteBack,
                                            .rank = rank,
                                            .row = held.row,
                                            .due = record_due(due),
                                            .position = position});
      ++mine.records;
    }
  }
  held = {};
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

// Requests are served in their order, so those that may leave first come first. All steps that lie a window back have
// run, so what waits for none later may leave at once; that is most.
std::span<const std::size_t> Planner::order_of_leaving(const std::vector<WriteBack>& write_backs) {
  const std::int64_t run = step_ - segment_->shape().window;
  leaving_.clear();
  waiting_.clear();
  for (std::size_t i = 0; i < write_backs.size(); ++i) (write_backs[i].after <= run ? leaving_ : waiting_).push_back(i);
  std::ranges::stable_sort(waiting_, {}, [&](std::size_t i) { return write_backs[i].after; });
  leaving_.insert(leaving_.end(), waiting_.begin(), waiting_.end());
  return leaving_;
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
    Counter& requested = segment_->requested(r);
    std::uint64_t sequence = requested.value.load(std::memory_order_relaxed);
    for (const std::size_t i : order_of_leaving(mine.write_backs)) {
      if (keeps_records_) {
        Operation& operation = mine.write_back_operations[i];
        operation.sequence = sequence;
        operations_of(operation.row).write_backs.push_back(operation);
      }
      segment_->request(r, sequence++) = mine.write_backs[i];
    }
    leave_in_flight(mine);
    pad(mine, segment_->inbox_rows(r, step_), static_cast<std::int32_t>(segment_->rank(r).cache_slots));
    segment_->plan_published(r, step_) = step_ + 1;
    Block& block = segment_->block(r, step_);
    block.step.store(step_, std::memory_order_release);
    block.begin.store(mine.begin, std::memory_order_release);
    block.end = mine.end;
    block.requests_end = sequence;
    block.remaining.store(mine.records, std::memory_order_release);
    requested.value.store(sequence, std::memory_order_release);
  }
  FRUGAL_SYNC_POINT("planner:decided", step_);
  for (Inbox* inbox : inboxes_) inbox->post();
  segment_->work().notify();
  segment_->planned().value.store(static_cast<std::uint64_t>(step_) + 1, std::memory_order_release);
  segment_->gate().notify();
}

std::int64_t Planner::next_use(std::int32_t rank, std::int64_t index) const {
  return next_use_ ? next_use_->after(rank, index) : kNever;
}

StepOperations& Planner::operations_of(std::int64_t row) const {
  return inboxes_[static_cast<std::size_t>(worker_of(row, static_cast<std::int32_t>(inboxes_.size())))]->next();
}

}  // namespace frugal
