// For each row of the step that is being planned, the next registered step in which the same rank uses it: what a cache
// policy that looks ahead wants to know. Built up as registrations come in, one hash operation per row.
//
// Uses are numbered in the order of their registration. A table holds the last use of each row; uses of steps that are
// planned already are out of date, and others take their places, so that nothing is ever removed.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/cache_policy.h"
#include "engine/row_map.h"
#include "engine/segment.h"
#include "memory/huge_pages.h"

namespace frugal {

class NextUse {
 public:
  // horizon: how many steps ahead uses are told, whatever is registered already, so that policies decide alike in every
  // run.
  NextUse(std::shared_ptr<Segment> segment, std::int64_t horizon) : segment_(std::move(segment)), horizon_(horizon) {
    for (int rank = 0; rank < segment_->shape().plans; ++rank) {
      ranks_.emplace_back(static_cast<std::size_t>(segment_->shape().window),
                          static_cast<std::size_t>(segment_->shape().max_rows));
    }
  }

  // Takes in what the ranks have registered since the last call; `planning` is the step whose uses are asked for next,
  // and the oldest still of interest.
  void see_registered(std::int64_t planning) {
    planning_ = planning;
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      Rank& rank = ranks_[r];
      const auto number = static_cast<int>(r);
      const auto end =
          static_cast<std::int64_t>(segment_->rank(number).registered.value.load(std::memory_order_acquire));
      if (planning < rank.seen) rank.oldest = rank.first_of(planning);
      for (; rank.seen < end; ++rank.seen) {
        rank.first_of(rank.seen) = rank.uses;
        if (rank.seen == planning) rank.oldest = rank.uses;
        rank.see(segment_->inbox_rows(number, rank.seen), segment_->inbox_count(number, rank.seen));
      }
    }
  }

  // Of row number `index` of the step that is being planned; kNever if that is not in sight.
  std::int64_t after(int rank, std::int64_t index) const {
    const Rank& mine = ranks_[static_cast<std::size_t>(rank)];
    const std::int64_t next = mine.next[mine.cell(mine.oldest + static_cast<std::uint64_t>(index))];
    return next - planning_ <= horizon_ ? next : kNever;
  }

 private:
  struct Use {
    std::int64_t row = -1;
    std::uint64_t number = 0;  // from 1; 0: none
  };
  // A line of the hash table. A row lies in the bucket that its hash names, or, if that was full, in one of those behind
  // it.
  struct alignas(64) Bucket {
    static constexpr int kUses = 3;
    Use use[kUses];
    std::uint64_t passed = 0;  // the last use that had to go on to the next bucket
  };

  struct Rank {
    Rank(std::size_t window, std::size_t max_rows)
        : next(std::bit_ceil(window * max_rows), kNever),
          first(window),
          buckets(std::bit_ceil(window * max_rows / 2 + 2)),
          shift(64 - std::countr_zero(buckets.size())) {}

    std::size_t cell(std::uint64_t number) const { return number & (next.size() - 1); }
    std::uint64_t& first_of(std::int64_t step) { return first[static_cast<std::size_t>(step) % first.size()]; }
    bool current(std::uint64_t number) const { return number >= oldest; }
    std::size_t home(std::int64_t row) const { return hash_row(row) >> shift; }
    std::size_t behind(std::size_t bucket) const { return (bucket + 1) & (buckets.size() - 1); }

    // Step `seen` uses these rows.
    void see(const std::int64_t* rows, std::int64_t count) {
      for (std::int64_t i = 0; i < count; ++i) {
        if (i + kPrefetch < count) __builtin_prefetch(&buckets[home(rows[i + kPrefetch])], 1);
        next[cell(uses)] = kNever;
        use(rows[i], uses++);
      }
    }

    void use(std::int64_t row, std::uint64_t number) {
      Use* place = nullptr;  // the first that is out of date
      std::size_t bucket = home(row), bucket_of_place = bucket;
      for (bool further = true; further; bucket = behind(bucket)) {
        for (Use& use : buckets[bucket].use) {
          if (current(use.number)) {
            if (use.row != row) continue;
            next[cell(use.number)] = seen;
            use.number = number;
            return pass(row, bucket, number);
          }
          if (place == nullptr) {
            place = &use;
            bucket_of_place = bucket;
          }
        }
        further = place == nullptr || current(buckets[bucket].passed);
      }
      *place = {row, number};
      pass(row, bucket_of_place, number);
    }
    void pass(std::int64_t row, std::size_t last, std::uint64_t number) {
      for (std::size_t bucket = home(row); bucket != last; bucket = behind(bucket)) buckets[bucket].passed = number;
    }

    std::int64_t seen = 0;             // registered steps taken in
    std::uint64_t uses = 1;            // number of the next use
    std::uint64_t oldest = 1;          // the first use of the step that is being planned
    LargeArray<std::int64_t> next;     // per use of the window: the step of the row's next one
    std::vector<std::uint64_t> first;  // per step of the window: its first use
    LargeArray<Bucket> buckets;
    int shift;
  };

  static constexpr std::int64_t kPrefetch = 24;  // rows ahead: enough misses at a time to hide most of each

  const std::shared_ptr<Segment> segment_;
  const std::int64_t horizon_;
  std::int64_t planning_ = 0;
  std::vector<Rank> ranks_;
};

}  // namespace frugal
