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

#include "base/huge_pages.h"
#include "base/parallel/background.h"
#include "base/parallel/callers_threads.h"
#include "store/owner_order.h"

namespace frugal {
namespace {

constexpr std::size_t kAlignment = 16;    // of arrays in a packed lookup
constexpr int kDigitBits = 9;             // of a pass, whose ends the first cache holds while they are filled
constexpr std::int64_t kFewIds = 256;     // below this passes over all counters cost more than comparing
constexpr std::int64_t kIdsOfTask = 1 << 16;

// A row and its position in the ids, so that no two entries are equal and ascending order is stable.
using Entry = std::uint64_t;

std::size_t aligned(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

void refuse_id(std::int64_t id, std::int64_t position, std::int64_t rows) {
  throw std::out_of_range("id " + std::to_string(id) + " at position " + std::to_string(position) +
                          " is outside the table of " + std::to_string(rows) + " rows");
}

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

// Entries are sorted digit by digit, from the lowest one on. Tasks share out the ids, and then the entries as they lie
// after each pass: each counts how many of its own have which digit, and then puts them where those before leave off.
// So rows that occur often keep all tasks busy, too. At last the tasks count distinct rows, and write them.
Lookup::Lookup(const std::int64_t* ids, std::int64_t count, std::int64_t rows, LookupThreads threads,
               std::byte* memory, int owners) {
  const OwnerOrder by_owner(rows, owners);
  const int position_bits = std::bit_width(static_cast<std::uint64_t>(count));
  const int row_bits = std::bit_width(static_cast<std::uint64_t>(std::max<std::int64_t>(by_owner.numbers() - 1, 1)));
  if (count >= std::numeric_limits<std::int32_t>::max() || position_bits + row_bits > 64)
    throw std::invalid_argument("a lookup of " + std::to_string(count) + " ids is too large; split the batch");
  const std::int64_t tasks = std::max<std::int64_t>(1, (count + kIdsOfTask - 1) / kIdsOfTask);
  const auto run = [&](const std::function<void(std::int64_t)>& task) {
    if (threads == LookupThreads::kCallers) return run_tasks(tasks, task);
    share_in_background(tasks, task);
  };
  const int passes = count < kFewIds ? 0 : (row_bits + kDigitBits - 1) / kDigitBits;
  const int digit_bits = passes == 0 ? 0 : (row_bits + passes - 1) / passes;
  const std::size_t digits = std::size_t{1} << digit_bits;

  // places[task * digits + d]: how many entries of the task have digit d, and then where the next one goes.
  std::vector<std::uint32_t> places(static_cast<std::size_t>(tasks) * digits);
  std::uint32_t total = 0;
  const auto places_of = [&](std::int64_t task) { return &places[static_cast<std::size_t>(task) * digits]; };
  const auto end_counting = [&] {
    total = 0;
    for (std::size_t d = 0; d < digits; ++d)
      for (std::size_t task = 0; task < static_cast<std::size_t>(tasks); ++task)
        total += std::exchange(places[task * digits + d], total);
  };
  const auto begin_of = [&](std::int64_t of, std::int64_t task) { return static_cast<std::size_t>(of * task / tasks); };

  std::vector<std::size_t> wrong(static_cast<std::size_t>(tasks), static_cast<std::size_t>(count));
  run([&](std::int64_t task) {  // the first id outside of the table, and lowest digits
    std::uint32_t* const place = places_of(task);
    for (std::size_t i = begin_of(count, task); i < begin_of(count, task + 1); ++i) {
      if (ids[i] >= 0 && ids[i] < rows) {
        ++place[by_owner.number_of(ids[i]) & (digits - 1)];
      } else if (ids[i] != kNoRow) {
        wrong[static_cast<std::size_t>(task)] = i;
        return;
      }
    }
  });
  const std::size_t first_wrong = *std::min_element(wrong.begin(), wrong.end());
  if (std::cmp_less(first_wrong, count)) refuse_id(ids[first_wrong], static_cast<std::int64_t>(first_wrong), rows);
  end_counting();

  static thread_local LargeArray<Entry> kept, other_kept;  // they keep their memory
  for (LargeArray<Entry>* each : {&kept, &other_kept})
    if (each->size() < total) each->resize(total + total / 4);
  Entry* entries = kept.data();
  Entry* other = other_kept.data();
  run([&](std::int64_t task) {
    std::uint32_t* const place = places_of(task);
    for (std::size_t i = begin_of(count, task); i < begin_of(count, task + 1); ++i)
      if (ids[i] != kNoRow) {
        const std::uint64_t row = by_owner.number_of(ids[i]);
        entries[place[row & (digits - 1)]++] = row << position_bits | static_cast<Entry>(i);
      }
  });
  for (int pass = 1; pass < passes; ++pass) {
    const int shift = position_bits + pass * digit_bits;
    run([&](std::int64_t task) {
      std::uint32_t* const place = places_of(task);
      std::fill_n(place, digits, 0);
      for (std::size_t i = begin_of(total, task); i < begin_of(total, task + 1); ++i)
        ++place[entries[i] >> shift & (digits - 1)];
    });
    end_counting();
    run([&](std::int64_t task) {
      std::uint32_t* const place = places_of(task);
      for (std::size_t i = begin_of(total, task); i < begin_of(total, task + 1); ++i)
        other[place[entries[i] >> shift & (digits - 1)]++] = entries[i];
    });
    std::swap(entries, other);
  }
  if (passes == 0) std::sort(entries, entries + total);

  const auto is_first = [&](std::size_t i) {
    return i == 0 || entries[i] >> position_bits != entries[i - 1] >> position_bits;
  };
  std::vector<std::uint32_t> distinct(static_cast<std::size_t>(tasks) + 1);
  run([&](std::int64_t task) {
    std::uint32_t found = 0;
    for (std::size_t i = begin_of(total, task); i < begin_of(total, task + 1); ++i) found += is_first(i);
    distinct[static_cast<std::size_t>(task) + 1] = found;
  });
  std::partial_sum(distinct.begin(), distinct.end(), distinct.begin());

  const std::size_t found = distinct.back();
  const auto bytes_of = packed_bytes(found, static_cast<std::size_t>(count), total);
  if (memory == nullptr) {
    own_ = std::make_unique_for_overwrite<std::byte[]>(bytes_of.back());
    memory = own_.get();
  }
  const auto array = [&]<class T>(std::span<T>& values, int which, std::size_t size) {
    values = {reinterpret_cast<T*>(memory + bytes_of[static_cast<std::size_t>(which)]), size};
  };
  array(rows_, 0, found);
  array(inverse_, 1, static_cast<std::size_t>(count));
  array(offset_, 2, found + 1);
  array(order_, 3, total);
  offset_.back() = static_cast<std::int32_t>(total);
  if (std::cmp_less(total, count)) std::ranges::fill(inverse_, static_cast<std::int32_t>(found));  // no row
  const Entry position_mask = (Entry{1} << position_bits) - 1;
  run([&](std::int64_t task) {
    std::size_t u = distinct[static_cast<std::size_t>(task)];
    for (std::size_t i = begin_of(total, task); i < begin_of(total, task + 1); ++i) {
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
