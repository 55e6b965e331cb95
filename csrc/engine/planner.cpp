#include "engine/planner.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <stdexcept>
#include <string>

#include "engine/next_use.h"
#include "engine/testing.h"

namespace frugal {
namespace {

constexpr std::int64_t kPrefetch = 8;  // rows ahead: about one cache miss

}  // namespace

Planner::Planner(const EngineConfig& config, std::shared_ptr<Segment> segment, std::vector<Inbox*> inboxes)
    : config_(config),
      segment_(std::move(segment)),
      inboxes_(std::move(inboxes)),
      caching_(!config.caches.empty() && config.mode != FlushMode::kOff),
      keeps_values_in_staging_(config.value_path == ValuePath::kStaging),
      reads_follow_stores_(segment_->shape().reads_follow_stores()),
      staging_floats_(segment_->shape().staging_floats),
      slots_(static_cast<std::size_t>(config.ranks)),
      parts_(static_cast<std::size_t>(config.ranks)) {
  std::int64_t slots = 0;
  for (int r = 0; r < config.ranks; ++r) {
    slots_[static_cast<std::size_t>(r)].resize(static_cast<std::size_t>(segment_->rank(r).cache_slots));
    slots += segment_->rank(r).cache_slots;
  }
  directory_.reserve(static_cast<std::size_t>(std::min(slots, config.rows)));
  const bool wanted = caching_ && std::any_of(config.caches.begin(), config.caches.end(),
                                              [](const auto& cache) { return cache->wants_next_use(); });
  if (wanted && config.horizon > 0) next_use_ = std::make_unique<NextUse>(segment_);
  bytes_ = static_cast<std::int64_t>(directory_.bytes()) + slots * static_cast<std::int64_t>(sizeof(Slot));
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
    RankArea& area = segment_->rank(r);
    registered = std::min(registered, area.registered.value.load(std::memory_order_acquire));
    wanted |= area.wanted.value.load(std::memory_order_acquire) > static_cast<std::uint64_t>(step);
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
  for (int r = 0; r < config_.ranks; ++r) {
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
  if (config_.ranks == 1) {
    const Part& mine = part(0);
    for (std::int64_t i = 0; i < mine.count; ++i) {
      if (caching_ && i + kPrefetch < mine.count) directory_.prefetch(mine.rows[i + kPrefetch]);
      const User user{0, i};
      visit(mine.rows[i], {&user, 1});
    }
  } else {  // merge the ranks' ascending lists: each distinct row once, with its users in rank order
    while (true) {
      std::int64_t row = kNever;
      for (const Part& mine : parts_)
        if (mine.head < mine.count) row = std::min(row, mine.rows[mine.head]);
      if (row == kNever) break;
      users_.clear();
      for (int r = 0; r < config_.ranks; ++r) {
        Part& mine = part(r);
        if (mine.head == mine.count || mine.rows[mine.head] != row) continue;
        users_.push_back({r, mine.head});
        ++mine.head;
        if (caching_ && mine.head + kPrefetch < mine.count) directory_.prefetch(mine.rows[mine.head + kPrefetch]);
      }
      visit(row, users_);
    }
  }
  admit_candidates();
  if (next_use_) next_use_->forget(step);
  finish();
}

void Planner::visit(std::int64_t row, std::span<const User> users) {
  const Place* found = caching_ ? directory_.find(row) : nullptr;
  if (found != nullptr) {
    const Place place = *found;
    CachePolicy& policy = *config_.caches[static_cast<std::size_t>(place.rank)];
    if (users.size() == 1 && users[0].rank == place.rank) {  // a hit; nothing travels
      slots_[static_cast<std::size_t>(place.rank)][static_cast<std::size_t>(place.slot)].since = step_;
      policy.touch(row, place.slot, step_, next_use(place.rank, users[0].index));
      const Part& mine = part(place.rank);
      mine.source[users[0].index] = place.slot;
      mine.plan(users[0].index, Leave::kCache, place.slot);
      return;
    }
    write_back(place.rank, place.slot, mutated(Mutation::kWriteBackAtInfinity) ? kNever : step_);
    policy.release(row, place.slot);
    directory_.erase(row);
  } else if (!reads_follow_stores_ && !mutated(Mutation::kDeadlineNotMoved)) {
    operations_of(row).operations.push_back({.kind = Operation::Kind::kRead, .row = row, .due = step_});
  }
  for (const User& user : users) part(user.rank).source[user.index] = kFromHost;
  if (users.size() > 1) {
    send_gradients(row, users);
  } else if (caching_) {
    candidates_.push_back(
        users[0]);  // admitted only when all hits of the step are known, so that none of them is evicted
  } else {
    send_value(users[0].rank, users[0].index);
  }
}

void Planner::admit_candidates() {
  for (std::size_t c = 0; c < candidates_.size(); ++c) {
    if (c + kPrefetch < candidates_.size()) {
      const User& soon = candidates_[c + kPrefetch];
      config_.caches[static_cast<std::size_t>(soon.rank)]->prefetch(part(soon.rank).rows[soon.index]);
    }
    const User& user = candidates_[c];
    const Part& mine = part(user.rank);
    const std::int64_t row = mine.rows[user.index];
    CachePolicy& policy = *config_.caches[static_cast<std::size_t>(user.rank)];
    const Admission admission = policy.admit(row, step_, next_use(user.rank, user.index));
    if (!admission.accepted()) {
      send_value(user.rank, user.index);
      continue;
    }
    auto& slots = slots_[static_cast<std::size_t>(user.rank)];
    if (admission.slot >= static_cast<std::int64_t>(slots.size()))
      throw std::logic_error("A cache policy admitted a row to a slot that the cache does not have.");
    Slot& slot = slots[static_cast<std::size_t>(admission.slot)];
    if (slot.row != admission.evicted_row || (slot.row >= 0 && slot.since == step_))
      throw std::logic_error("A cache policy evicted a row that is not in the slot, or that the same step uses.");
    if (slot.row >= 0) {
      directory_.erase(slot.row);
      write_back(user.rank, admission.slot, kNever);
    }
    slot = {row, step_};
    directory_[row] = {user.rank, admission.slot};
    mine.plan(user.index, Leave::kCache, admission.slot);
  }
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
                                .leave = keeps_values_in_staging_ ? Leave::kValue : Leave::kHostRow});
    mine.write_back_operations.push_back({.kind = Operation::Kind::kWriteBack,
                                          .rank = rank,
                                          .row = held.row,
                                          .due = record_due(due),
                                          .position = position});
    ++mine.records;
  }
  held = {};
}

void Planner::send_value(std::int32_t rank, std::int64_t index) {
  Part& mine = part(rank);
  const std::int64_t row = mine.rows[index];
  const std::int64_t position = keeps_values_in_staging_ ? allocate(rank, config_.layout.stride) : kInHostRow;
  if (keeps_values_in_staging_)
    mine.plan(index, Leave::kValue, position % staging_floats_);
  else
    mine.plan(index, Leave::kHostRow, row);
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
    std::int64_t position = allocate(users[u].rank, vectors * config_.layout.stride);
    Part& sender = part(users[u].rank);
    sender.plan(users[u].index, Leave::kGradient, position % staging_floats_);
    ++sender.records;
    for (int entry = 0; entry < config_.entries; ++entry) {
      source(entry).position = position;
      position += source(entry).count * config_.layout.stride;
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

// Hands the step to the ranks and the shards.
void Planner::finish() {
  for (int r = 0; r < config_.ranks; ++r) {
    Part& mine = part(r);
    // Requests are served in their order, so those that may leave first come first.
    std::vector<std::size_t> order(mine.write_backs.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&mine](std::size_t a, std::size_t b) {
      return mine.write_backs[a].after < mine.write_backs[b].after;
    });
    RankArea& area = segment_->rank(r);
    std::uint64_t sequence = area.requested.value.load(std::memory_order_relaxed);
    for (const std::size_t i : order) {
      Operation& operation = mine.write_back_operations[i];
      operation.sequence = sequence;
      operations_of(operation.row).write_backs.push_back(operation);
      segment_->request(r, sequence++) = mine.write_backs[i];
    }
    Block& block = segment_->block(r, step_);
    block.step.store(step_, std::memory_order_release);
    block.begin.store(mine.begin, std::memory_order_release);
    block.end = mine.end;
    block.requests_end = sequence;
    block.remaining.store(mine.records, std::memory_order_release);
    area.requested.value.store(sequence, std::memory_order_release);
  }
  FRUGAL_SYNC_POINT("planner:decided", step_);
  for (Inbox* inbox : inboxes_) inbox->post();
  segment_->work().notify();
  segment_->planned().value.store(static_cast<std::uint64_t>(step_) + 1, std::memory_order_release);
  segment_->gate().notify();
}

std::int64_t Planner::next_use(std::int32_t rank, std::int64_t index) const {
  return next_use_ ? next_use_->after(rank, step_, index) : kNever;
}

StepOperations& Planner::operations_of(std::int64_t row) const {
  return inboxes_[static_cast<std::size_t>(shard_of(row, static_cast<std::int32_t>(inboxes_.size())))]->next();
}

}  // namespace frugal
