// Rows on their way to shared memory from where records are gathered from: floats, or halves that become floats.
#pragma once

#include <cstdint>

#include "kernels/cuda/half_records.cuh"
#include "kernels/row_program.h"
#include "step/cuda/shared_copy.cuh"

namespace frugal::cuda {

struct EarlyRow {
  const float* from;
  float* to;             // aligned to 16 bytes where halves may come
  std::int64_t floats;   // of a row of floats; of halves come dim + state, and zeros up to a multiple of four
  bool in_halves;
  RowMemory memory;      // of halves; of no state: the embedding alone

  __device__ int half_words() const { return in_halves ? static_cast<int>(memory.record_floats() / 4) : 0; }
};

__device__ inline RowMemory without_state(RowMemory memory) {
  memory.state = 0;
  return memory;
}

__device__ inline void expand_word(const EarlyRow& row, const Word& word, int i) {
  if (row.memory.element == RowElement::kFloat16)
    expand_word<RowElement::kFloat16>(row.memory, word, i, row.to);
  else
    expand_word<RowElement::kBfloat16>(row.memory, word, i, row.to);
}

// By `kThreadsOf` neighbouring threads; there once copies are finished (shared_copy.cuh). kHalves: whether any may come.
template <int kThreadsOf, bool kHalves, int kRows>
__device__ void start_rows(const EarlyRow (&rows)[kRows]) {
#pragma unroll
  for (const EarlyRow& row : rows)
    if (!kHalves || !row.in_halves) start_copy<kThreadsOf>(row.to, row.from, row.floats);
  if constexpr (kHalves) {
    constexpr int kAhead = 4;  // words of each row that a thread has under way
    const int thread = static_cast<int>(threadIdx.x) % kThreadsOf;
    int most = 0;
#pragma unroll
    for (const EarlyRow& row : rows) most = row.half_words() > most ? row.half_words() : most;
    for (int first = thread; first < most; first += kAhead * kThreadsOf) {
      Word words[kRows][kAhead];
      const auto each = [&](auto body) {
#pragma unroll
        for (int r = 0; r < kRows; ++r)
#pragma unroll
          for (int k = 0; k < kAhead; ++k)
            if (first + k * kThreadsOf < rows[r].half_words()) body(rows[r], first + k * kThreadsOf, words[r][k]);
      };
      each([](const EarlyRow& row, int i, Word& word) { word = reinterpret_cast<const Word*>(row.from)[i]; });
      each([](const EarlyRow& row, int i, Word& word) { expand_word(row, word, i); });
    }
#pragma unroll
    for (const EarlyRow& row : rows) {
      const std::int64_t end = row.memory.dim + row.memory.state + thread;
      if (row.in_halves && end < (row.memory.dim + row.memory.state + 3) / 4 * 4) row.to[end] = 0.0f;
    }
  }
}

}  // namespace frugal::cuda
