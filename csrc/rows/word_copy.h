// Copying a record with several threads: which thread moves which 16-byte words, and when.
//
// Requests over the bus are lines of 128 bytes. So the first thread starts at the line that the source lies in, and
// skips what lies before the source: then every request of a warp covers whole lines, also for rows that do not start
// on one. Four loads are under way per thread before its first store, since the way over the bus is long.
#pragma once

#include <cstdint>

#include "rows/row_program.h"

namespace frugal {

struct alignas(16) Word {
  float at[4];
};

inline constexpr int kLineWords = 8;
inline constexpr int kWordsInFlight = 4;
inline constexpr int kWarpLanes = 32;

// Words between the start of the source's line and the source.
FRUGAL_HOST_DEVICE inline int words_into_line(const Word* from) {
  return static_cast<int>(reinterpret_cast<std::uintptr_t>(from) / sizeof(Word) % kLineWords);
}

// Threads per row, between a line's and a warp's: the fewest that have all its words under way at once. More would
// leave a warp with fewer bytes on the bus, which short rows and rows in half precision feel.
inline int lanes_for_words(std::int64_t words) {
  int lanes = kLineWords;
  while (lanes < kWarpLanes && lanes * kWordsInFlight < words) lanes *= 2;
  return lanes;
}

// One thread's share: all `lanes` threads with lanes 0 .. lanes - 1 together call store(i, word i) once for each of the
// `words`.
template <typename Store>
FRUGAL_HOST_DEVICE inline void for_words(const Word* __restrict__ from, int words, int lane, int lanes, Store store) {
  for (int first = lane - words_into_line(from); first < words; first += kWordsInFlight * lanes) {
    Word moved[kWordsInFlight];
    FRUGAL_UNROLL
    for (int k = 0; k < kWordsInFlight; ++k) {
      const int i = first + k * lanes;
      if (i >= 0 && i < words) moved[k] = from[i];
    }
    FRUGAL_UNROLL
    for (int k = 0; k < kWordsInFlight; ++k) {
      const int i = first + k * lanes;
      if (i >= 0 && i < words) store(i, moved[k]);
    }
  }
}

FRUGAL_HOST_DEVICE inline void copy_words(Word* __restrict__ to, const Word* __restrict__ from, int words, int lane,
                                          int lanes) {
  for_words(from, words, lane, lanes, [to](int i, const Word& word) { to[i] = word; });
}

}  // namespace frugal
