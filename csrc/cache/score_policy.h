// How a cached key's score comes about. The key with the lowest score of its set is evicted first.
//
// The policies and their bit layout are HierarchicalKV's (arXiv 2603.17168): LRU scores are times, LFU scores are
// counts, the epoch variants put the epoch into the upper half so that any key of a later epoch outlives any key of an
// earlier one, and customized scores are the caller's.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace frugal {

using Score = std::uint64_t;

enum class ScorePolicy { kLru, kLfu, kEpochLru, kEpochLfu, kCustomized };

// The time of a score; the caller moves both numbers forward.
struct ScoreClock {
  std::int64_t time = 0;    // monotone; in training the step
  std::uint32_t epoch = 0;  // monotone
};

namespace detail {
inline constexpr Score kLowerHalf = std::numeric_limits<std::uint32_t>::max();

constexpr Score saturating_sum(Score a, Score b, Score limit) { return a > limit - std::min(b, limit) ? limit : a + b; }
constexpr Score in_epoch(const ScoreClock& clock, Score lower) { return Score{clock.epoch} << 32 | lower; }
}  // namespace detail

// The score of a key that comes in. `given`: the count to start from (LFU), the score itself (customized), else unused.
constexpr Score score_of_insert(ScorePolicy policy, const ScoreClock& clock, Score given) {
  switch (policy) {
    case ScorePolicy::kLru:
      return static_cast<Score>(clock.time);
    case ScorePolicy::kEpochLru:
      return detail::in_epoch(clock, static_cast<Score>(clock.time) & detail::kLowerHalf);
    case ScorePolicy::kEpochLfu:
      return detail::in_epoch(clock, std::min(given, detail::kLowerHalf));
    case ScorePolicy::kLfu:
    case ScorePolicy::kCustomized:
      return given;
  }
  return given;
}

// The score of a key that is there already and is touched again. `given`: how much to add to its count (LFU).
constexpr Score score_of_touch(ScorePolicy policy, const ScoreClock& clock, Score score, Score given) {
  switch (policy) {
    case ScorePolicy::kLfu:
      return detail::saturating_sum(score, given, std::numeric_limits<Score>::max());
    case ScorePolicy::kEpochLfu:
      return detail::in_epoch(clock, detail::saturating_sum(score & detail::kLowerHalf, given, detail::kLowerHalf));
    default:
      return score_of_insert(policy, clock, given);
  }
}

}  // namespace frugal
