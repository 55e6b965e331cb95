// How often rows were asked for that are not in the cache, in a fixed amount of memory: a count-min sketch.
//
// A cache index counts only the keys that it holds; a key that was evicted, or never came in, would start from nothing
// each time, and a full cache of keys seen twice would never take a newcomer in. All four counters of a key lie in one
// line of memory, so counting costs one miss. Counts are never too low, and too high only when other keys share all
// counters.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "memory/huge_pages.h"

namespace frugal {

class FrequencySketch {
 public:
  // keys: about how many different keys are worth telling apart. Takes 8 to 16 bytes for each.
  explicit FrequencySketch(std::uint64_t keys)
      : lines_(std::bit_ceil(std::max<std::uint64_t>(1, keys / kKeysPerLine))), mask_(lines_.size() - 1) {}

  void prefetch(std::int64_t key) const { __builtin_prefetch(&lines_[(hash(key) >> 32) & mask_], 1); }

  // Counts one more; returns the count, this one included. Counts stop at 65535.
  std::uint32_t count(std::int64_t key) {
    const std::uint64_t hashed = hash(key);
    std::uint16_t* const line = lines_[(hashed >> 32) & mask_].counter;
    std::uint32_t lowest = kMost;
    for (int k = 0; k < kCounters; ++k) lowest = std::min<std::uint32_t>(lowest, line[place(hashed, k)]);
    if (lowest == kMost) return lowest;
    for (int k = 0; k < kCounters; ++k)  // raising only the lowest ones keeps the others' error down
      line[place(hashed, k)] += line[place(hashed, k)] == lowest;
    return lowest + 1;
  }

 private:
  static constexpr int kCounters = 4, kPerLine = 32;
  static constexpr std::uint64_t kKeysPerLine = 4;
  static constexpr std::uint32_t kMost = 65535;
  struct alignas(64) Line {
    std::uint16_t counter[kPerLine] = {};
  };

  static std::uint64_t hash(std::int64_t key) {  // finalizer of murmur3
    std::uint64_t x = static_cast<std::uint64_t>(key);
    x = (x ^ (x >> 33)) * 0xff51afd7ed558ccdu;
    x = (x ^ (x >> 33)) * 0xc4ceb9fe1a85ec53u;
    return x ^ (x >> 33);
  }
  // One counter in each quarter of the line, named by three bits of the hash.
  static int place(std::uint64_t hashed, int k) {
    constexpr int kQuarter = kPerLine / kCounters;
    return k * kQuarter + static_cast<int>((hashed >> (3 * k)) % kQuarter);
  }

  LargeArray<Line> lines_;
  std::uint64_t mask_;
};

}  // namespace frugal
