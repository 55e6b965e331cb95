// For each row of a registered step, the next registered step in which the same rank uses it: what a cache policy that
// looks ahead wants to know. Built up as registrations come in, two hash operations per row.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/row_map.h"
#include "engine/segment.h"

namespace frugal {

class NextUse {
 public:
  explicit NextUse(std::shared_ptr<Segment> segment)
      : segment_(std::move(segment)), ranks_(static_cast<std::size_t>(segment_->shape().plans)) {
    for (Rank& rank : ranks_) {
      rank.steps.resize(static_cast<std::size_t>(segment_->shape().window));
      for (auto& step : rank.steps) step.resize(static_cast<std::size_t>(segment_->shape().max_rows), kNever);
    }
  }

  // Takes in what the ranks have registered since the last call; `planning` is the oldest step still of interest.
  void see_registered(std::int64_t planning) {
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      Rank& rank = ranks_[r];
      const auto number = static_cast<int>(r);
      const auto end =
          static_cast<std::int64_t>(segment_->rank(number).registered.value.load(std::memory_order_acquire));
      for (; rank.seen < end; ++rank.seen) {
        const std::int64_t* rows = segment_->inbox_rows(number, rank.seen);
        const std::int64_t count = segment_->inbox_count(number, rank.seen);
        for (std::int64_t i = 0; i < count; ++i) {
          if (i + kPrefetch < count) rank.last.prefetch(rows[i + kPrefetch]);
          cell(rank, rank.seen, i) = kNever;
          Use& last = rank.last[rows[i]];
          if (last.step >= planning) cell(rank, last.step, last.index) = rank.seen;
          last = {rank.seen, i};
        }
      }
    }
  }

  std::int64_t after(int rank, std::int64_t step, std::int64_t index) const {
    const Rank& mine = ranks_[static_cast<std::size_t>(rank)];
    return mine.steps[static_cast<std::size_t>(step) % mine.steps.size()][static_cast<std::size_t>(index)];
  }

  // The step is planned: rows that no later registered step uses are dropped, so that memory follows the window.
  void forget(std::int64_t step) {
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      const auto number = static_cast<int>(r);
      const std::int64_t* rows = segment_->inbox_rows(number, step);
      const std::int64_t count = segment_->inbox_count(number, step);
      for (std::int64_t i = 0; i < count; ++i) {
        if (i + kPrefetch < count) ranks_[r].last.prefetch(rows[i + kPrefetch]);
        const Use* last = ranks_[r].last.find(rows[i]);
        if (last != nullptr && last->step == step) ranks_[r].last.erase(rows[i]);
      }
    }
  }

 private:
  static constexpr std::int64_t kPrefetch = 8;  // rows ahead: about one cache miss

  struct Use {
    std::int64_t step = -1, index = 0;
  };
  struct Rank {
    std::int64_t seen = 0;  // registered steps taken in
    RowMap<Use> last;       // the last registered use of a row
    std::vector<std::vector<std::int64_t>> steps;
  };

  static std::int64_t& cell(Rank& rank, std::int64_t step, std::int64_t index) {
    return rank.steps[static_cast<std::size_t>(step) % rank.steps.size()][static_cast<std::size_t>(index)];
  }

  std::shared_ptr<Segment> segment_;
  std::vector<Rank> ranks_;
};

}  // namespace frugal
