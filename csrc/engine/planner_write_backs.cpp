// The rows that leave their places because of a step: write-backs that ranks are asked for, values, gradients, their
// places in staging, and what flush workers are told of them.
#include <algorithm>
#include <stdexcept>
#include <string>

#include "engine/planner.h"
#include "engine/testing.h"

namespace frugal {

// In sync mode everything lands before the next step; in p2f a record waits for the step that reads it.
std::int64_t Planner::record_due(std::int64_t due) const {
  return shape_.mode == FlushMode::kP2F ? due : std::min(due, step_ + 1);
}

void Planner::write_back(Share& share, std::int32_t rank, std::int32_t place, std::int64_t due) {
  if (mutated(Mutation::kNoWriteBackRequest)) return;
  const Slot& held = slots_[static_cast<std::size_t>(place)];
  const std::int64_t position = keeps_records() ? allocate(rank, shape_.layout.stride) : 0;
  const WriteBack leaving{.row = held.row,
                          .after = held.since,
                          .target = keeps_records() ? position % shape_.staging_floats : held.row,
                          .block = step_,
                          .slot = place - part(rank).first_place,
                          .leave = keeps_records() ? RowDestination::kValue : RowDestination::kHostRow};
  // All steps that lie a window back have run, so what waits for none later may leave at once; that is most.
  const bool may_leave = held.since <= step_ - shape_.window;
  (may_leave ? share.leaving : share.waiting).push_back({leaving, due, position, rank});
}

// Requests are served in their order, so rows that may leave first come first.
void Planner::request_write_backs() {
  std::vector<Leaving>& waiting = shares_[0].waiting;
  for (const Share& share : std::span(shares_).subspan(1))
    waiting.insert(waiting.end(), share.waiting.begin(), share.waiting.end());
  std::ranges::stable_sort(waiting, {}, [](const Leaving& leaving) { return leaving.request.after; });
  for (const Share& share : shares_) request(share.leaving);
  request(waiting);
}

void Planner::request(std::span<const Leaving> leaving) {
  for (const auto& [request, due, position, rank] : leaving) {
    Part& mine = part(rank);
    if (keeps_records()) {
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
}

void Planner::send_value(std::int32_t rank, std::int64_t index) {
  Part& mine = part(rank);
  const std::int64_t row = mine.rows[index];
  if (!keeps_records()) return mine.plan(index, RowDestination::kHostRow, row);
  const std::int64_t position = allocate(rank, shape_.layout.stride);
  mine.plan(index, RowDestination::kValue, position % shape_.staging_floats);
  ++mine.records;
  operations_of(row).operations.push_back(
      {.kind = Operation::Kind::kValue, .rank = rank, .row = row, .due = record_due(kNever), .position = position});
}

void Planner::send_gradients(std::int64_t row, std::span<const User> users) {
  if (!keeps_records()) return stage_gradients(users);
  StepOperations& mine = operations_of(row);
  const std::size_t first = mine.sources.size();
  for (int entry = 0; entry < shape_.entries; ++entry)
    for (const User& user : users) {
      const Part& part_of_user = part(user.rank);
      mine.sources.push_back({0, user.rank, part_of_user.occurrences[entry * part_of_user.count + user.index], entry});
    }
  for (std::size_t u = 0; u < users.size(); ++u) {
    const auto source = [&](int entry) -> GradientSource& {
      return mine.sources[first + static_cast<std::size_t>(entry) * users.size() + u];
    };
    std::int64_t vectors = 0;
    for (int entry = 0; entry < shape_.entries; ++entry) vectors += source(entry).count;
    std::int64_t position = allocate(users[u].rank, vectors * shape_.layout.in_floats().stride);
    Part& sender = part(users[u].rank);
    sender.plan(users[u].index, RowDestination::kGradient, position % shape_.staging_floats);
    ++sender.records;
    for (int entry = 0; entry < shape_.entries; ++entry) {
      source(entry).position = position;
      position += source(entry).count * shape_.layout.in_floats().stride;
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
    for (int entry = 0; entry < shape_.entries; ++entry)
      vectors += sender.occurrences[entry * sender.count + user.index];
    const std::int64_t position = allocate(user.rank, vectors * shape_.layout.in_floats().stride);
    sender.plan(user.index, RowDestination::kGradient, position % shape_.staging_floats);
  }
}

// A stretch of the rank's staging that does not wrap. Positions are given out ahead; whether the bytes are free again
// is checked when the rank comes to write them.
std::int64_t Planner::allocate(std::int32_t rank, std::int64_t floats) {
  Part& mine = part(rank);
  const std::int64_t room = shape_.staging_floats;
  if (mine.end % room + floats > room) mine.end += room - mine.end % room;
  const std::int64_t position = mine.end;
  mine.end += floats;
  if (mine.end - mine.begin > room)
    throw std::runtime_error("Step " + std::to_string(step_) + " of rank " + std::to_string(rank) +
                             " sends more than its staging of " + std::to_string(room * 4) +
                             " bytes holds; give the engine more staging_bytes.");
  return position;
}

StepOperations& Planner::operations_of(std::int64_t row) const {
  return inboxes_[static_cast<std::size_t>(worker_of(row, static_cast<std::int32_t>(inboxes_.size())))]->next();
}

}  // namespace frugal
