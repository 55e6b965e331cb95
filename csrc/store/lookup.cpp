#include "store/lookup.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>

#include "base/parallel/callers_threads.h"

namespace frugal {
namespace {

constexpr std::size_t kAlignment = 16;    // of arrays in a packed lookup
constexpr int kTopBits = 9;               // of a row: buckets whose ends the first cache holds while they are filled
constexpr int kDigitBits = 9;             // of a pass within a bucket, which the cache holds as a whole
constexpr std::size_t kFewEntries = 256;  // below this passes over all counters cost more than comparing
constexpr std::int64_t kIdsOfTask = 1 << 16;  // fewer are one bucket, which the second cache holds

// A row and its position in the ids, so that no two entries are equal and ascending order is stable.
using Entry = std::uint64_t;

// Sorts count entries by their bits [low, low + bits), stably; `other` has as much room.
void sort_by_bits(Entry* entries, Entry* other, std::size_t count, int low, int bits) {
  if (count < kFewEntries) return std::sort(entries, entries + count);
  const int passes = (bits + kDigitBits - 1) / kDigitBits;
  if (passes == 0) return;
  const int digit = (bits + passes - 1) / passes;
  const Entry mask = (Entry{1} << digit) - 1;
  Entry* from = entries;
  Entry* to = other;
  for (int pass = 0; pass < passes; ++pass, std::swap(from, to)) {
    const int shift = low + pass * digit;
    std::array<std::uint32_t, std::size_t{1} << kDigitBits> first{};
    for (std::size_t i = 0; i < count; ++i) ++first[from[i] >> shift & mask];
    std::uint32_t sum = 0;
    for (Entry value = 0; value <= mask; ++value) sum += std::exchange(first[value], sum);
    for (std::size_t i = 0; i < count; ++i) to[first[from[i] >> shift & mask]++] = from[i];
  }
  if (from != entries) std::copy_n(from, count, entries);
}

std::size_t aligned(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// The order of rows: by owner, and then ascending.
class OwnerOrder {
 public:
  OwnerOrder(std::int64_t rows, int owners)
      : rows_(rows), owners_(owners), share_((rows + owners - 1) / owners), small_(rows <= kMostSmall) {}

  std::int64_t numbers() const { return owners_ == 1 ? rows_ : owners_ * share_; }
  std::uint64_t number_of(std::int64_t row) const {
    if (owners_ == 1) return static_cast<std::uint64_t>(row);
    const std::int64_t before = divided(row, owners_);
    return static_cast<std::uint64_t>((row - before * owners_) * share_ + before);
  }
  std::int64_t row_of(std::uint64_t number) const {
    if (owners_ == 1) return static_cast<std::int64_t>(number);
    const std::int64_t owner = divided(static_cast<std::int64_t>(number), share_);
    return (static_cast<std::int64_t>(number) - owner * share_) * owners_ + owner;
  }

 private:
  static constexpr std::int64_t kMostSmall = std::int64_t{1} << 31;  // whose numbers a processor divides faster

  std::int64_t divided(std::int64_t a, std::int64_t b) const {
    return small_ ? static_cast<std::uint32_t>(a) / static_cast<std::uint32_t>(b) : a / b;
  }

  std::int64_t rows_, owners_, share_;
  bool small_;
};

}  // namespace

std::array<std::size_t, 5> Lookup::packed_bytes(std::size_t rows, std::size_t count, std::size_t occurrences) {
  const std::size_t inverse = aligned(rows * sizeof(std::int64_t));
  const std::size_t offset = inverse + aligned(count * sizeof(std::int32_t));
  const std::size_t order = offset + aligned((rows + 1) * sizeof(std::int32_t));
  return {0, inverse, offset, order, order + occurrences * sizeof(std::int32_t)};
}

std::size_t Lookup::most_packed_bytes(std::int64_t count) {
  const auto ids = static_cast<std::size_t>(count);
  return packed_bytes(ids, ids, ids).back();
}

void Lookup::pack(std::byte* out) const { std::memcpy(out, rows_.data(), packed().back()); }

// Tasks share out the ids: each counts how many of its own are in each bucket of rows, by the top bits of the row, and
// then puts them there. After that they share out the buckets, which are sorted one by one, and whose distinct rows are
// counted and then written.
Lookup::Lookup(const std::int64_t* ids, std::int64_t count, std::int64_t rows, bool helpers, std::byte* memory,
               int owners) {
  const OwnerOrder by_owner(rows, owners);
  const int position_bits = std::bit_width(static_cast<std::uint64_t>(count));
  const int row_bits = std::bit_width(static_cast<std::uint64_t>(std::max<std::int64_t>(by_owner.numbers() - 1, 0)));
  if (count >= std::numeric_limits<std::int32_t>::max() || position_bits + row_bits > 64)
    throw std::invalid_argument("a lookup of " + std::to_string(count) + " ids is too large; split the batch");
  const auto run = [helpers](std::int64_t tasks, const std::function<void(std::int64_t)>& task) {
    if (helpers) return run_tasks(tasks, task);
    for (std::int64_t i = 0; i < tasks; ++i) task(i);
  };
  const std::int64_t tasks = std::max<std::int64_t>(1, (count + kIdsOfTask - 1) / kIdsOfTask);
  const int top_bits = count < kIdsOfTask ? 0 : std::min(row_bits, kTopBits);
  const int low_bits = row_bits - top_bits;
  const std::size_t buckets = std::size_t{1} << top_bits;
  const auto begin_of = [&](std::int64_t task) { return count * task / tasks; };

  // places[task * buckets + b]: how many ids of the task are in bucket b, and then where the next one goes.
  std::vector<std::uint32_t> places(static_cast<std::size_t>(tasks) * buckets);
  std::vector<std::int64_t> wrong(static_cast<std::size_t>(tasks), count);  // the first id outside of the table
  run(tasks, [&](std::int64_t task) {
    std::uint32_t* const place = &places[static_cast<std::size_t>(task) * buckets];
    for (std::int64_t i = begin_of(task); i < begin_of(task + 1); ++i) {
      if (ids[i] >= 0 && ids[i] < rows) {
        ++place[by_owner.number_of(ids[i]) >> low_bits];
      } else if (ids[i] != kNoRow) {
        wrong[static_cast<std::size_t>(task)] = i;
        return;
      }
    }
  });
  const std::int64_t first_wrong = *std::min_element(wrong.begin(), wrong.end());
  if (first_wrong < count)
    throw std::out_of_range("id " + std::to_string(ids[first_wrong]) + " at position " + std::to_string(first_wrong) +
                            " is outside the table of " + std::to_string(rows) + " rows");
  std::vector<std::uint32_t> begins(buckets + 1);
  std::uint32_t total = 0;
  for (std::size_t b = 0; b < buckets; ++b) {
    begins[b] = total;
    for (std::size_t task = 0; task < static_cast<std::size_t>(tasks); ++task)
      total += std::exchange(places[task * buckets + b], total);
  }
  begins[buckets] = total;

  static thread_local std::vector<Entry> kept, other_kept;  // they keep their memory
  kept.resize(total);
  other_kept.resize(total);
  Entry* const entries = kept.data();
  Entry* const other = other_kept.data();
  run(tasks, [&](std::int64_t task) {
    std::uint32_t* const place = &places[static_cast<std::size_t>(task) * buckets];
    for (std::int64_t i = begin_of(task); i < begin_of(task + 1); ++i)
      if (ids[i] != kNoRow) {
        const std::uint64_t row = by_owner.number_of(ids[i]);
        entries[place[row >> low_bits]++] = row << position_bits | static_cast<Entry>(i);
      }
  });

  // The first bucket of a task: tasks have about equally many entries.
  const auto first_bucket = [&](std::int64_t task) {
    const auto wanted = static_cast<std::uint32_t>(std::int64_t{total} * task / tasks);
    return task == tasks ? buckets
                         : static_cast<std::size_t>(std::lower_bound(begins.begin(), begins.end() - 1, wanted) -
                                                    begins.begin());
  };
  const auto is_first = [&](std::size_t i) {
    return i == 0 || entries[i] >> position_bits != entries[i - 1] >> position_bits;
  };
  std::vector<std::uint32_t> distinct(static_cast<std::size_t>(tasks) + 1);
  run(tasks, [&](std::int64_t task) {
    const std::size_t last = first_bucket(task + 1);
    std::uint32_t found = 0;
    for (std::size_t b = first_bucket(task); b < last; ++b) {
      const std::size_t begin = begins[b], size = begins[b + 1] - begin;
      sort_by_bits(entries + begin, other + begin, size, position_bits, low_bits);
      for (std::size_t i = begin; i < begin + size; ++i)  // the row of another bucket is another one
        found += i == begin || entries[i] >> position_bits != entries[i - 1] >> position_bits;
    }
    distinct[static_cast<std::size_t>(task) + 1] = found;
  });
  std::partial_sum(distinct.begin(), distinct.end(), distinct.begin());

  const std::size_t found = distinct.back();
  const auto places_of = packed_bytes(found, static_cast<std::size_t>(count), total);
  if (memory == nullptr) {
    own_ = std::make_unique_for_overwrite<std::byte[]>(places_of.back());
    memory = own_.get();
  }
  const auto array = [&]<class T>(std::span<T>& values, int which, std::size_t size) {
    values = {reinterpret_cast<T*>(memory + places_of[static_cast<std::size_t>(which)]), size};
  };
  array(rows_, 0, found);
  array(inverse_, 1, static_cast<std::size_t>(count));
  array(offset_, 2, found + 1);
  array(order_, 3, total);
  offset_.back() = static_cast<std::int32_t>(total);
  if (std::cmp_less(total, count)) std::ranges::fill(inverse_, static_cast<std::int32_t>(found));  // no row
  const Entry position_mask = (Entry{1} << position_bits) - 1;
  run(tasks, [&](std::int64_t task) {
    std::size_t u = distinct[static_cast<std::size_t>(task)];
    const std::size_t last = begins[first_bucket(task + 1)];
    for (std::size_t i = begins[first_bucket(task)]; i < last; ++i) {
      const Entry position = entries[i] & position_mask;
      if (is_first(i)) {
        rows_[u] = by_owner.row_of(entries[i] >> position_bits);
        offset_[u++] = static_cast<std::int32_t>(i);
      }
      inverse_[position] = static_cast<std::int32_t>(u - 1);
      order_[i] = static_cast<std::int32_t>(position);
    }
  });
}

}  // namespace frugal
