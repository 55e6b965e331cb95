#include "cache/replay.h"

#include <time.h>

#include <vector>

namespace frugal {
namespace {

// next[i]: the next step that uses rows[i], or kNever if that is more than `horizon` steps away.
std::vector<std::int64_t> next_uses(std::int64_t row_count, std::span<const std::int64_t> offsets,
                                    std::span<const std::int64_t> rows, std::int64_t horizon) {
  std::vector<std::int64_t> next(rows.size()), seen(static_cast<std::size_t>(row_count), kNever);
  for (auto step = static_cast<std::int64_t>(offsets.size()) - 2; step >= 0; --step)
    for (std::int64_t i = offsets[step]; i < offsets[step + 1]; ++i) {
      std::int64_t& later = seen[rows[i]];
      next[i] = later == kNever || later - step > horizon ? kNever : later;
      later = step;
    }
  return next;
}

constexpr std::int64_t kNoRow = -1;
constexpr std::size_t kPrefetch = 8;  // rows ahead

std::int64_t thread_nanoseconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec * std::int64_t{1000000000} + now.tv_nsec;
}

}  // namespace

ReplayResult replay(CachePolicy& policy, std::int64_t row_count, std::span<const std::int64_t> offsets,
                    std::span<const std::int64_t> rows, std::int64_t horizon, std::int64_t measured_from) {
  const std::vector<std::int64_t> next = next_uses(row_count, offsets, rows, horizon);
  std::vector<std::int32_t> slot_of(static_cast<std::size_t>(row_count), kRejected);
  std::vector<std::int64_t> row_in(static_cast<std::size_t>(policy.slots()), kNoRow), misses;
  std::vector<std::uint16_t> uses(static_cast<std::size_t>(row_count));
  ReplayResult result;
  const auto steps = static_cast<std::int64_t>(offsets.size()) - 1;
  for (std::int64_t step = 0; step < steps; ++step) {
    misses.clear();
    const auto use = [&](std::int64_t i) -> RowUse { return {rows[i], step, next[i], uses[rows[i]]}; };
    for (std::int64_t i = offsets[step]; i < offsets[step + 1]; ++i) uses[rows[i]] += uses[rows[i]] != 0xffff;
    const std::int64_t start = thread_nanoseconds();
    for (std::int64_t i = offsets[step]; i < offsets[step + 1]; ++i) {
      if (slot_of[rows[i]] >= 0)
        policy.touch(use(i), slot_of[rows[i]]);
      else
        misses.push_back(i);
    }
    std::int64_t evictions = 0, rejections = 0;
    for (std::size_t m = 0; m < misses.size(); ++m) {
      if (m + kPrefetch < misses.size()) policy.prefetch(rows[misses[m + kPrefetch]]);
      const std::int64_t i = misses[m];
      const std::int32_t slot = policy.admit(use(i));
      rejections += slot == kRejected;
      if (slot == kRejected) continue;
      evictions += row_in[slot] != kNoRow;
      if (row_in[slot] != kNoRow) slot_of[row_in[slot]] = kRejected;
      row_in[slot] = rows[i];
      slot_of[rows[i]] = slot;
    }
    const std::int64_t end = thread_nanoseconds();
    if (step < measured_from) continue;
    const std::int64_t reads = offsets[step + 1] - offsets[step];
    result.reads += reads;
    result.hits += reads - static_cast<std::int64_t>(misses.size());
    result.evictions += evictions;
    result.rejections += rejections;
    result.nanoseconds += end - start;
  }
  return result;
}

}  // namespace frugal
