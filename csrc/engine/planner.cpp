#include "engine/planner.h"

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <string>
#include <utility>

#include "base/parallel/thread_pool.h"
#include "engine/row_list.h"
#include "engine/testing.h"

namespace frugal {
namespace {

// Rows ahead that memory is asked for: enough misses at a time to hide most of each.
constexpr std::size_t kPrefetch = 24;

constexpr std::int64_t kNoRow = -1;
constexpr std::int64_t kGrain = 512;  // rows of a range that one thread looks up
constexpr int kMostThreads = 4, kThreadsOfManyRows = 16;  // by default
constexpr std::int64_t kManyRows = 1 << 17;               // of a step, that keep so many threads busy

int planner_threads(const EngineConfig& config) {
  if (config.planner_threads > 0) return config.planner_threads;
  return config.max_rows_per_step < kManyRows ? std::clamp(usable_cores() / 4, 1, kMostThreads)
                                              : std::clamp(usable_cores() / 2, 1, kThreadsOfManyRows);
}

std::int64_t cache_slots(Segment& segment) {
  std::int64_t slots = 0;
  for (int r = 0; r < segment.shape().plans; ++r) slots += segment.rank(r).cache_slots;
  return slots;
}

}  // namespace

Planner::Planner(const EngineConfig& config, std::shared_ptr<Segment> segment, std::vector<Inbox*> inboxes,
                 std::shared_ptr<GivenRows> given)
    : segment_(std::move(segment)),
      shape_(segment_->shape()),
      inboxes_(std::move(inboxes)),
      given_(std::move(given)),
      caching_(!config.caches.empty()),
      static_cache_(!keeps_records() && caching_ &&
                    std::ranges::all_of(config.caches, [](const auto& cache) { return cache->keeps_for_good(); })),
      horizon_(std::max(config.horizon, shape_.publishes_before_sync() ? 1 : 0)),
      parts_(static_cast<std::size_t>(shape_.plans)),
      buffer_(cache_slots(*segment_) + 1, shape_.max_rows, shape_.plans == 1 ? shape_.write_back_steps : 0),
      recent_(cache_slots(*segment_), shape_.in_step_sync() ? shape_.plans : 0, shape_.max_rows,
              shape_.write_back_steps),
      sharing_{RowSharing(shape_.plans > 1 ? shape_.plans : 0, shape_.max_rows),
               RowSharing(shape_.plans > 1 ? shape_.plans : 0, shape_.max_rows)} {
  if (planner_threads(config) > 1 && (caching_ || shape_.in_step_sync()) &&
      shape_.plans * shape_.max_rows >= 2 * kGrain)
    lookups_ = std::make_unique<TaskTeam>(planner_threads(config));
  std::int64_t slots = 0;
  for (int r = 0; r < shape_.plans; ++r) {
    Part& mine = part(r);
    mine.cache = caching_ ? config.caches[static_cast<std::size_t>(r)].get() : nullptr;
    mine.first_place = static_cast<std::int32_t>(slots);
    mine.padded.assign(static_cast<std::size_t>(shape_.window), shape_.max_rows);
    slots += segment_->rank(r).cache_slots;
  }
  slots_.resize(static_cast<std::size_t>(slots));
  const bool counts =
      caching_ && std::ranges::any_of(config.caches, [](const auto& cache) { return cache->wants_count(); });
  // Without records and staging, whose order is that of all rows, which rows are evicted and admitted is a part's own
  // matter.
  shares_.resize(plans_as_found() ? static_cast<std::size_t>(parts_[0].cache->parts()) : 1);
  for (std::size_t s = 0; s < shares_.size(); ++s) {
    shares_[s].part = static_cast<std::int64_t>(s);
    shares_[s].parts = std::ssize(shares_);
  }
  if (shape_.keeps_reused) upcoming_ = UpcomingRows(config.rows);
  if (caching_ || buffer_.any() || shape_.in_step_sync()) cells_ = RowCells(config.rows, counts ? shape_.plans : 0);
  for (Part& mine : parts_) mine.counts.resize(static_cast<std::size_t>(counts ? shape_.max_rows : 0));
  bytes_ = bytes_of(shape_, slots, counts);
}

Planner::~Planner() = default;

std::int64_t Planner::bytes_of(const SegmentShape& shape, std::int64_t slots, bool counts) {
  const bool alone = shape.plans == 1;
  const std::int64_t write_back_steps = alone ? shape.write_back_steps * shape.max_rows : 0;
  const bool knows_rows = slots > 0 || write_back_steps > 0 || shape.in_step_sync();
  return slots * static_cast<std::int64_t>(sizeof(Slot)) + WriteBackBuffer::bytes_of(write_back_steps) +
         (knows_rows ? RowCells::bytes_of(shape.rows, counts ? shape.plans : 0) : 0) +
         (shape.keeps_reused ? UpcomingRows::bytes_of(shape.rows) : 0) +
         RecentChanges::bytes_of(shape.in_step_sync() ? shape.plans : 0, shape.max_rows);
}

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

// All ranks have registered the step and, so that it is known what is used again, `horizon` more; or one waits for it.
// The block ring and the inboxes have room: what they hold of old steps lands without the planner's help.
bool Planner::ready(std::int64_t step) const {
  bool wanted = false;
  std::uint64_t registered = ~0ull;
  for (int r = 0; r < shape_.ranks; ++r) {
    const RankArea& area = segment_->rank(r);
    wanted |= area.wanted.value.load(std::memory_order_acquire) > static_cast<std::uint64_t>(step);
    if (r >= shape_.plans) continue;
    registered = std::min(registered, area.registered.value.load(std::memory_order_acquire));
    // The cell of step - block_ring is reused; a fresh cell has nothing remaining.
    if (segment_->block(r, step).remaining.load(std::memory_order_acquire) != 0) return false;
  }
  const std::uint64_t needed =
      static_cast<std::uint64_t>(step) + 1 + (wanted ? 0 : static_cast<std::uint64_t>(horizon_));
  return registered >= needed &&
         std::all_of(inboxes_.begin(), inboxes_.end(), [](const Inbox* inbox) { return inbox->has_room(); });
}

// Rows that lie where the rank has registered them come into the segment, of all steps that are registered.
void Planner::take_given() {
  const auto registered =
      static_cast<std::int64_t>(segment_->rank(0).registered.value.load(std::memory_order_acquire));
  for (; taken_ < registered; ++taken_) {
    const std::int64_t* const rows = given_ ? given_->rows(taken_) : nullptr;
    if (rows == nullptr) continue;
    const std::int64_t count = segment_->inbox_count(0, taken_), table_rows = shape_.rows;
    std::int64_t* const to = segment_->inbox_rows(0, taken_);
    std::atomic<bool> wrong{false};
    in_list(rows, count, [&](std::span<const std::int64_t> part) {
      std::ranges::copy(part, to + (part.data() - rows));
      const bool with_one_before = part.data() > rows;  // which a part begins behind
      if (!is_row_list({part.data() - with_one_before, part.size() + with_one_before}, table_rows))
        wrong.store(true, std::memory_order_relaxed);
    });
    if (wrong.load(std::memory_order_relaxed))
      refuse_row_list({rows, static_cast<std::size_t>(count)}, table_rows);
    given_->let_go(taken_);
  }
}

void Planner::start(std::int64_t step) {
  step_ = step;
  if (shape_.plans == 1) take_given();
  for (Inbox* inbox : inboxes_) inbox->next().clear(step);
  recent_.begin(step, shape_.plans);
  for (int r = 0; r < shape_.plans; ++r) {
    Part& mine = part(r);
    mine.rows = segment_->inbox_rows(r, step);
    mine.occurrences = segment_->inbox_occurrences(r, step);
    mine.count = segment_->inbox_count(r, step);
    mine.source = segment_->plan_source(r, step);
    mine.leave = segment_->plan_leave(r, step);
    mine.target = segment_->plan_target(r, step);
    if (shape_.evicts_to_buffer) {
      mine.evicted = segment_->plan_evicted(r, step);
      std::fill_n(mine.evicted, shape_.max_rows, kNoRow);
      segment_->plan_first_buffer_slot(r, step) = buffer_.first_slot(step);
    }
    mine.begin = mutated(Mutation::kSharedBuffer) ? 0 : mine.end;
    mine.end = mine.begin;
    mine.records = 0;
    mine.requested = segment_->requested(r).value.load(std::memory_order_relaxed);
  }
  if (shape_.keeps_reused) see_upcoming();
  for (Share& share : shares_) {
    share.candidates.clear();
    share.admitted.clear();
    share.leaving.clear();
    share.waiting.clear();
  }
}

// The steps for which values stay in the write-back buffer: as far ahead as their slots are theirs, and the horizon,
// whatever else is registered.
void Planner::see_upcoming() {
  const std::int64_t ahead = std::min(horizon_, shape_.write_back_steps);
  for (std::int64_t next; (next = upcoming_.next()) < std::min(taken_, step_ + ahead + 1);) {
    UpcomingRows* const upcoming = &upcoming_;  // for the threads, while this one waits for them
    in_list(segment_->inbox_rows(0, next), segment_->inbox_count(0, next),
            [upcoming](std::span<const std::int64_t> rows) { upcoming->see(rows); });
    upcoming_.see_end();
  }
}

void Planner::decide(std::int64_t step) {
  start(step);
  locate();
  visit_shared();
  in_shares();
  leave_for_buffer();
  request_write_backs();
  finish();
}

// The rows that each rank has alone, and what its cache does.
void Planner::in_shares() {
  std::size_t undecided = 0;
  for (const Part& mine : parts_)
    for (const LocatedRows& located : mine.located)
      undecided += located.missed.size() + (shape_.plans > 1 || !static_cache_ ? located.found.size() : 0);
  const auto decide_share = [&](std::int64_t s) FRUGAL_REQUIRES(thread_) {
    Share& share = shares_[static_cast<std::size_t>(s)];
    try {
      for (int r = 0; r < shape_.plans; ++r) visit_rank(share, r);
      admit_candidates(share);
    } catch (...) {
      share.error = std::current_exception();
    }
  };
  if (std::cmp_greater_equal(undecided, kGrain)) {
    in_tasks(std::ssize(shares_), decide_share);
  } else {  // as when a cache that keeps rows for good has nearly all of them: too few to wake threads for
    for (std::int64_t s = 0; s < std::ssize(shares_); ++s) decide_share(s);
  }
  for (const Share& share : shares_) {
    if (share.error) std::rethrow_exception(share.error);
    // Here, since threads would write into each other's lines.
    for (const auto& [user, place, evicted] : share.admitted) {
      const Part& mine = part(user.rank);
      mine.plan(user.index, RowDestination::kCache, place - mine.first_place);
      if (!shape_.evicts_to_buffer || evicted == kNoRow) continue;
      mine.evicted[user.index] = evicted;
      buffer_.put(step_, user.index, evicted);
    }
  }
}

// Finds out which rows the ranks share in a step that all have registered.
void Planner::see_sharing(std::int64_t step) {
  RowSharing& seen = sharing(step);
  if (seen.step() == step) return;
  for (int r = 0; r < shape_.plans; ++r)
    seen.set_rows(r, {segment_->inbox_rows(r, step), static_cast<std::size_t>(segment_->inbox_count(r, step))});
  in_tasks(shape_.plans, [&seen](std::int64_t rank) { seen.filter_others(static_cast<int>(rank)); });
  seen.set_step(step);
}

// Where the rows of the lists are: for all of them before any is visited. A visit moves no row but its own.
void Planner::locate() {
  for (Part& mine : parts_) mine.located.resize(static_cast<std::size_t>(ranges_of(mine.count)));
  if (shape_.plans == 1)
    locate_alone();
  else
    locate_among_ranks();
}

void Planner::locate_alone() {
  const RowLookup lookup(cells_, std::ssize(slots_), buffer_, step_);
  in_ranges([&](Part& mine, int rank, std::size_t range, std::int64_t begin, std::int64_t end) {
    LocatedRows& located = mine.located[range];
    lookup.locate(mine.rows, begin, end, rank, mine.source, mine.counts.empty() ? nullptr : mine.counts.data(),
                  located);
    if (plans_as_found()) lookup.plan_in_place(mine.rows, begin, end, mine.source, mine.leave, mine.target);
    if (static_cache_) lookup.only_wanted(mine.rows, *mine.cache, located);
  });
}

void Planner::locate_among_ranks() {
  const RowLookup lookup(cells_, std::ssize(slots_), buffer_, step_);
  see_sharing(step_);
  const RowSharing* const sharing = &this->sharing(step_);  // for the threads, while this one waits for them
  const RecentChanges* const recent = &recent_;
  in_ranges([&](Part& mine, int rank, std::size_t range, std::int64_t begin, std::int64_t end) {
    LocatedRows& located = mine.located[range];
    lookup.locate_among_ranks(mine.rows, begin, end, rank, *sharing, *recent, mine.source, mine.leave, mine.target,
                              mine.counts.empty() ? nullptr : mine.counts.data(), located);
    if (static_cache_) lookup.only_wanted(mine.rows, *mine.cache, located);
  });
}

std::int64_t Planner::ranges_of(std::int64_t count) const {
  return lookups_ ? std::max<std::int64_t>(count / kGrain, 1) : 1;
}

void Planner::in_list(const std::int64_t* rows, std::int64_t count,
                      const std::function<void(std::span<const std::int64_t>)>& work) const {
  const std::int64_t ranges = ranges_of(count);
  in_tasks(ranges, [&](std::int64_t range) {
    work({rows + count * range / ranges, rows + count * (range + 1) / ranges});
  });
}

void Planner::in_tasks(std::int64_t tasks, const std::function<void(std::int64_t)>& task) const {
  if (lookups_ && tasks > 1 && tasks <= TaskTeam::kMostTasks) return lookups_->run(tasks, task);
  for (std::int64_t t = 0; t < tasks; ++t) task(t);
}

template <class Work>
void Planner::in_ranges(const Work& work) {
  std::vector<Part>* const parts = &parts_;
  std::int64_t tasks = 0;
  for (const Part& mine : parts_) tasks += ranges_of(mine.count);
  in_tasks(tasks, [&](std::int64_t range) {
    std::size_t rank = 0;
    for (; range >= ranges_of((*parts)[rank].count); ++rank) range -= ranges_of((*parts)[rank].count);
    Part& mine = (*parts)[rank];
    const std::int64_t ranges = ranges_of(mine.count);
    work(mine, static_cast<int>(rank), static_cast<std::size_t>(range), mine.count * range / ranges,
         mine.count * (range + 1) / ranges);
  });
}

// All rows have been found, and what leaves is known.
void Planner::leave_for_buffer() {
  const std::int64_t step = step_;
  if (buffer_.any()) {
    WriteBackBuffer* const buffer = &buffer_;  // for the threads, while this one waits for them
    const UpcomingRows* const upcoming = &upcoming_;
    in_ranges([&](Part& mine, int, std::size_t, std::int64_t begin, std::int64_t end) {
      buffer->leave(step, mine.rows, begin, end, *upcoming, mine.leave, mine.target);
    });
  }
  if (recent_.any()) leave_among_ranks();
}

// The same with in-step synchronisation. Rows that another rank reads in the next step are published before it, and
// all rows if nobody knows that.
void Planner::leave_among_ranks() {
  bool known = shape_.publishes_before_sync();
  for (int r = 0; r < shape_.plans; ++r)
    known &= segment_->rank(r).registered.value.load(std::memory_order_acquire) > static_cast<std::uint64_t>(step_) + 1;
  if (known) see_sharing(step_ + 1);
  const RowSharing* const next = known ? &sharing(step_ + 1) : nullptr;
  RecentChanges* const recent = &recent_;
  const std::int64_t step = step_, max_rows = shape_.max_rows, write_back_steps = shape_.write_back_steps;
  in_ranges([&](Part& mine, int rank, std::size_t, std::int64_t begin, std::int64_t end) {
    const std::int64_t first =
        write_back_steps > 0 ? segment_->rank(rank).cache_slots + 1 + step % write_back_steps * max_rows : 0;
    for (std::int64_t i = begin; i < end; ++i) {
      if (mine.leave[i] == RowDestination::kCache) continue;
      const bool leaves = write_back_steps > 0 && mine.leave[i] == RowDestination::kHostRow;
      recent->set(step, rank, i, mine.rows[i], leaves ? static_cast<std::int32_t>(first + i) : kFromHost);
      if (!leaves) continue;
      const bool wanted = next == nullptr || next->others_have(rank, mine.rows[i]);
      mine.plan(i,
                wanted && !mutated(Mutation::kNothingPublishedBeforeSync) ? RowDestination::kPublishedBeforeSync
                                                                          : RowDestination::kWriteBackBuffer,
                first + i);
    }
  });
}

// Merges what several ranks have, ascending: each row once, with its users in rank order.
void Planner::visit_shared() {
  for (Part& mine : parts_) {
    mine.shared.clear();
    mine.head = 0;
    for (const LocatedRows& located : mine.located)
      mine.shared.insert(mine.shared.end(), located.shared.begin(), located.shared.end());
  }
  const auto next = [](const Part& mine) {
    return mine.head < mine.shared.size() ? mine.rows[mine.shared[mine.head]] : kNever;
  };
  while (true) {
    std::int64_t row = kNever;
    for (const Part& mine : parts_) row = std::min(row, next(mine));
    if (row == kNever) break;
    users_.clear();
    for (int r = 0; r < shape_.plans; ++r)
      if (next(part(r)) == row) users_.push_back({r, part(r).shared[part(r).head++]});
    const std::int32_t place = cells_.empty() ? kFromHost : cells_.place(row);
    if (is_cached(place)) {
      pull_back(shares_[0], row, place, users_);
    } else {
      miss(row);
      if (shape_.in_step_sync()) cells_.place(row) = changed_place(users_[0]);
    }
    send_gradients(row, users_);
  }
}

// Without a branch on the data, which nobody could predict.
std::span<const std::int64_t> Planner::Share::of(std::span<const std::int64_t> indices, const std::int64_t* rows) {
  if (parts == 1) return indices;
  chosen.resize(indices.size() + 1);
  std::size_t count = 0;
  for (const std::int64_t index : indices) {
    chosen[count] = index;
    count += (rows[index] & (parts - 1)) == part;
  }
  return {chosen.data(), count};
}

void Planner::visit_rank(Share& share, std::int32_t rank) {
  const Part& mine = part(rank);
  std::vector<User>& candidates = share.candidates;
  const auto first = std::ssize(candidates);
  for (const LocatedRows& located : mine.located)
    if (shape_.plans > 1 || !static_cache_) visit_found(share, rank, share.of(located.found, mine.rows));
  const auto missed = std::ssize(candidates);
  for (const LocatedRows& located : mine.located)
    for (const std::int64_t index : share.of(located.missed, mine.rows)) {
      miss(mine.rows[index]);
      candidates.push_back({rank, index});
    }
  // Policies see them in the order of the list.
  std::ranges::inplace_merge(candidates.begin() + first, candidates.begin() + missed, candidates.end(), {},
                             &User::index);
}

void Planner::visit_found(Share& share, std::int32_t rank, std::span<const std::int64_t> found) {
  const Part& mine = part(rank);
  const auto prefetch = [&](std::int64_t index) FRUGAL_REQUIRES(thread_) {
    const std::int32_t place = mine.source[index];
    __builtin_prefetch(&slots_[static_cast<std::size_t>(place)], 1);
    if (rank_of(place) == rank) mine.cache->prefetch_touch(mine.rows[index], place - mine.first_place);
  };
  for (std::size_t f = 0; f < std::min(kPrefetch, found.size()); ++f) prefetch(found[f]);
  for (std::size_t f = 0; f < found.size(); ++f) {
    if (f + kPrefetch < found.size()) prefetch(found[f + kPrefetch]);
    const std::int64_t index = found[f];
    const std::int32_t place = mine.source[index];
    if (rank_of(place) == rank) {
      hit(rank, index);
      continue;
    }
    const User user{rank, index};
    pull_back(share, mine.rows[index], place, {&user, 1});
    share.candidates.push_back(user);
  }
}

// The row is in the cache of the one rank that uses it: nothing travels.
void Planner::hit(std::int32_t rank, std::int64_t index) {
  const Part& mine = part(rank);
  const std::int32_t place = mine.source[index], slot = place - mine.first_place;
  slots_[static_cast<std::size_t>(place)].since = step_;
  mine.cache->touch(use(mine, index), slot);
  if (plans_as_found()) return;
  mine.source[index] = slot;
  mine.plan(index, RowDestination::kCache, slot);
}

// The row is read from host, and was there before.
void Planner::miss(std::int64_t row) {
  if (keeps_records() && !mutated(Mutation::kDeadlineNotMoved))
    operations_of(row).operations.push_back({.kind = Operation::Kind::kRead, .row = row, .due = step_});
}

// The row is in a cache, and others read it.
void Planner::pull_back(Share& share, std::int64_t row, std::int32_t place, std::span<const User> users) {
  const std::int32_t rank = rank_of(place);
  write_back(share, rank, place, mutated(Mutation::kWriteBackAtInfinity) ? kNever : step_);
  slots_[static_cast<std::size_t>(place)] = {};
  part(rank).cache->release(row, place - part(rank).first_place);
  cells_.place(row) = changed_place(users[0]);
  for (const User& user : users) part(user.rank).source[user.index] = shape_.in_step_sync() ? kFromHostLate : kFromHost;
}

// Of a row that leaves the caches: that of the user's row among recent changes, if there are such.
std::int32_t Planner::changed_place(const User& user) const {
  return shape_.in_step_sync() ? recent_.first_place(step_, user.rank) + static_cast<std::int32_t>(user.index)
                               : kFromHost;
}

// In whose cache the place is.
std::int32_t Planner::rank_of(std::int32_t place) const {
  std::int32_t rank = shape_.plans - 1;
  while (place < parts_[static_cast<std::size_t>(rank)].first_place) --rank;
  return rank;
}

// When all hits of the step are known, so that none of them is evicted. Candidates go through three stages, each of
// which asks for the memory that the next one touches: the policy answers, the row is admitted, the one in
// its slot is evicted.
void Planner::admit_candidates(Share& share) {
  const std::vector<User>& candidates = share.candidates;
  std::vector<Admitted>& admitted = share.admitted;
  if (!caching_) {
    for (const User& user : candidates) send_value(user.rank, user.index);
    return;
  }
  std::size_t in = 0, out = 0;  // of those admitted: how many are in their slots, and have evicted
  const auto move = [&](std::size_t behind) FRUGAL_REQUIRES(thread_) {
    for (; in + behind < admitted.size(); ++in) admit(share, admitted[in]);
    for (; out + behind < in; ++out)  // no row is admitted and evicted by one step
      if (admitted[out].evicted != kNoRow) evict(admitted[out]);
  };
  for (std::size_t c = 0; c < std::min(kPrefetch, candidates.size()); ++c) prefetch_candidate(candidates[c]);
  for (std::size_t c = 0; c < candidates.size(); ++c) {
    if (c + kPrefetch < candidates.size()) prefetch_candidate(candidates[c + kPrefetch]);
    const User& user = candidates[c];
    const Part& mine = part(user.rank);
    const std::int32_t slot = mine.cache->admit(use(mine, user.index));
    if (slot == kRejected) {
      if (!plans_as_found()) send_value(user.rank, user.index);
      continue;
    }
    if (slot >= segment_->rank(user.rank).cache_slots)
      throw std::logic_error("A cache policy admitted a row to a slot that the cache does not have.");
    admitted.push_back({user, mine.first_place + slot, kNoRow});
    __builtin_prefetch(&slots_[static_cast<std::size_t>(admitted.back().place)], 1);
    cells_.prefetch(mine.rows[user.index]);
    move(kPrefetch);
  }
  move(0);
}

void Planner::prefetch_candidate(const User& user) {
  const Part& mine = part(user.rank);
  mine.cache->prefetch(mine.rows[user.index]);
}

void Planner::admit(Share& share, Admitted& admitted) {
  const auto& [user, place, evicted] = admitted;
  Slot& slot = slots_[static_cast<std::size_t>(place)];
  const Part& mine = part(user.rank);
  if (slot.row != kNoRow) {
    if (slot.since == step_) throw std::logic_error("A cache policy evicted a row that the same step uses.");
    cells_.prefetch(slot.row);
    if (!shape_.evicts_to_buffer) write_back(share, user.rank, place, kNever);
  }
  admitted.evicted = slot.row;
  slot = {mine.rows[user.index], step_};
  cells_.place(slot.row) = place;
}

// Its value is written back with this step, from the slot of the write-back buffer that belongs to the row which took
// its place; or its write-back changes the host row with this step: that row lends it its entry.
void Planner::evict(const Admitted& admitted) {
  if (shape_.evicts_to_buffer) {
    cells_.place(admitted.evicted) = buffer_.first_slot(step_) + static_cast<std::int32_t>(admitted.user.index);
    return;
  }
  cells_.place(admitted.evicted) = changed_place(admitted.user);
  if (shape_.in_step_sync()) recent_.set(step_, admitted.user.rank, admitted.user.index, admitted.evicted);
}

// Behind the step's rows, for executors that take a plan as a whole: as far as the cell's last step had rows, since
// what follows is padding still.
void Planner::pad(Part& mine, std::int64_t* rows, std::int32_t scratch) {
  std::int64_t& end = mine.padded[static_cast<std::size_t>(step_ % shape_.window)];
  std::fill(rows + mine.count, std::max(rows + mine.count, rows + end), 0);
  std::fill(mine.source + mine.count, std::max(mine.source + mine.count, mine.source + end), scratch);
  std::fill(mine.leave + mine.count, std::max(mine.leave + mine.count, mine.leave + end), RowDestination::kCache);
  std::fill(mine.target + mine.count, std::max(mine.target + mine.count, mine.target + end), scratch);
  end = mine.count;
}

// Hands the step to the ranks and the flush workers.
void Planner::finish() {
  Segment* const segment = segment_.get();  // for the threads, while this one waits for them
  in_ranges([segment, step = step_](Part& mine, int rank, std::size_t range, std::int64_t begin, std::int64_t end) {
    mine.located[range].counts =
        StepCounts::of(segment->plan(rank, step), segment->rank(rank).cache_slots, begin, end);
  });
  for (int r = 0; r < shape_.plans; ++r) {
    Part& mine = part(r);
    StepCounts& counts = segment_->counts(r, step_) = {};
    for (const LocatedRows& located : mine.located) counts += located.counts;
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
  return {mine.rows[index], step_, mine.counts.empty() ? 0 : mine.counts[static_cast<std::size_t>(index)]};
}

}  // namespace frugal
