#include "store/lookup.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>

namespace frugal {
namespace {

constexpr std::size_t kAlignment = 16;    // of arrays in a packed lookup
constexpr int kDigitBits = 11;            // counters of one pass fit into the first cache
constexpr std::size_t kFewEntries = 512;  // below this passes over all counters cost more than comparing

// Sorts `entries` by their bits [low, low + bits), stably where passes are used; `other` is as large.
void sort_by_bits(std::vector<std::uint64_t>& entries, std::vector<std::uint64_t>& other, int low, int bits) {
  if (entries.size() < kFewEntries) return std::sort(entries.begin(), entries.end());  // positions lie in the low bits
  const int passes = (bits + kDigitBits - 1) / kDigitBits;
  if (passes == 0) return;
  const int digit = (bits + passes - 1) / passes;
  const std::uint64_t mask = (std::uint64_t{1} << digit) - 1;
  std::array<std::uint32_t, std::size_t{1} << kDigitBits> first;
  for (int pass = 0; pass < passes; ++pass) {
    const int shift = low + pass * digit;
    first.fill(0);
    for (const std::uint64_t entry : entries) ++first[entry >> shift & mask];
    std::uint32_t sum = 0;
    for (std::uint64_t value = 0; value <= mask; ++value) {
      const std::uint32_t count = first[value];
      first[value] = sum;
      sum += count;
    }
    for (const std::uint64_t entry : entries) other[first[entry >> shift & mask]++] = entry;
    entries.swap(other);
  }
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

Lookup::Lookup(const std::int64_t* ids, std::int64_t count, std::int64_t rows) {
  const int position_bits = std::bit_width(static_cast<std::uint64_t>(count));
  const int row_bits = std::bit_width(static_cast<std::uint64_t>(std::max<std::int64_t>(rows - 1, 0)));
  if (count >= std::numeric_limits<std::int32_t>::max() || position_bits + row_bits > 64)
    throw std::invalid_argument("a lookup of " + std::to_string(count) + " ids is too large; split the batch");
  static thread_local std::vector<std::uint64_t> entries, other;  // row and position; they keep their memory
  entries.clear();
  entries.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    if (ids[i] == kNoRow) continue;
    if (ids[i] < 0 || ids[i] >= rows)
      throw std::out_of_range("id " + std::to_string(ids[i]) + " at position " + std::to_string(i) +
                              " is outside the table of " + std::to_string(rows) + " rows");
    entries.push_back(static_cast<std::uint64_t>(ids[i]) << position_bits | static_cast<std::uint64_t>(i));
  }
  other.resize(entries.size());
  sort_by_bits(entries, other, position_bits, row_bits);

  inverse_.resize(static_cast<std::size_t>(count));
  order_.resize(entries.size());
  rows_.reserve(entries.size());
  offset_.reserve(entries.size() + 1);
  const std::uint64_t position_mask = (std::uint64_t{1} << position_bits) - 1;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const auto row = static_cast<std::int64_t>(entries[i] >> position_bits);
    const std::uint64_t position = entries[i] & position_mask;
    if (rows_.empty() || rows_.back() != row) {
      offset_.push_back(static_cast<std::int32_t>(i));
      rows_.push_back(row);
    }
    inverse_[position] = static_cast<std::int32_t>(rows_.size() - 1);
    order_[i] = static_cast<std::int32_t>(position);
  }
  offset_.push_back(static_cast<std::int32_t>(entries.size()));
  if (entries.size() < static_cast<std::size_t>(count))
    for (std::int64_t i = 0; i < count; ++i)
      if (ids[i] == kNoRow) inverse_[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(rows_.size());
}

}  // namespace frugal
