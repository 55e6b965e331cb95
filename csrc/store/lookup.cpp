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

}  // namespace

std::array<std::size_t, 5> Lookup::packed() const {
  const std::size_t inverse = aligned(rows_.size() * sizeof(std::int64_t));
  const std::size_t offset = inverse + aligned(inverse_.size() * sizeof(std::int32_t));
  const std::size_t order = offset + aligned(offset_.size() * sizeof(std::int32_t));
  return {0, inverse, offset, order, order + order_.size() * sizeof(std::int32_t)};
}

std::size_t Lookup::most_packed_bytes(std::int64_t count) {
  const auto ids = static_cast<std::size_t>(count);
  return aligned(ids * sizeof(std::int64_t)) + aligned(ids * sizeof(std::int32_t)) +
         aligned((ids + 1) * sizeof(std::int32_t)) + ids * sizeof(std::int32_t);
}

void Lookup::pack(std::byte* out) const {
  const auto begin = packed();
  const auto put = [&](std::size_t at, const auto& values) {
    if (!values.empty()) std::memcpy(out + at, values.data(), values.size() * sizeof(values[0]));
  };
  put(begin[0], rows_);
  put(begin[1], inverse_);
  put(begin[2], offset_);
  put(begin[3], order_);
}

// Tasks share out the ids: each counts how many of its own are in each bucket of rows, by the top bits of the row, and
// then puts them there. After that they share out the buckets, which are sorted one by one, and whose distinct rows are
// counted and then written.
Lookup::Lookup(const std::int64_t* ids, std::int64_t count, std::int64_t rows, bool helpers) {
  const int position_bits = std::bit_width(static_cast<std::uint64_t>(count));
  const int row_bits = std::bit_width(static_cast<std::uint64_t>(std::max<std::int64_t>(rows - 1, 0)));
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
        ++place[static_cast<std::uint64_t>(ids[i]) >> low_bits];
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
      if (const auto row = static_cast<std::uint64_t>(ids[i]); ids[i] != kNoRow)
        entries[place[row >> low_bits]++] = row << position_bits | static_cast<Entry>(i);
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

  rows_.resize(distinct.back());
  offset_.resize(rows_.size() + 1);
  offset_.back() = static_cast<std::int32_t>(total);
  order_.resize(total);
  inverse_.resize(static_cast<std::size_t>(count), static_cast<std::int32_t>(rows_.size()));
  const Entry position_mask = (Entry{1} << position_bits) - 1;
  run(tasks, [&](std::int64_t task) {
    std::size_t u = distinct[static_cast<std::size_t>(task)];
    const std::size_t last = begins[first_bucket(task + 1)];
    for (std::size_t i = begins[first_bucket(task)]; i < last; ++i) {
      const Entry position = entries[i] & position_mask;
      if (is_first(i)) {
        rows_[u] = static_cast<std::int64_t>(entries[i] >> position_bits);
        offset_[u++] = static_cast<std::int32_t>(i);
      }
      inverse_[position] = static_cast<std::int32_t>(u - 1);
      order_[i] = static_cast<std::int32_t>(position);
    }
  });
}

}  // namespace frugal
