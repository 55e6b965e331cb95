// Records in halves, in floats: embedding, then the state, which is float32 there, too.
#pragma once

#include <cstdint>

#include "kernels/word_copy.h"
#include "memory/half.h"

namespace frugal::cuda {

// Word i of a record in halves, in floats.
template <RowElement kElement>
__device__ inline void expand_word(const RowMemory& memory, const Word& word, int i, float* record) {
  constexpr int kHalves = 8;
  if (kHalves * (i + 1) <= memory.dim) {
    Word wide[2];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const std::uint32_t two = bits_of(word.at[k]);
      wide[k / 2].at[k % 2 * 2] = Half<kElement>::expand(static_cast<std::uint16_t>(two));
      wide[k / 2].at[k % 2 * 2 + 1] = Half<kElement>::expand(static_cast<std::uint16_t>(two >> 16));
    }
    Word* const to = reinterpret_cast<Word*>(record) + 2 * i;
    to[0] = wide[0];
    to[1] = wide[1];
    return;
  }
  for (int k = 0; k < 4; ++k) {  // the last halves, the state, padding
    const std::int64_t place = 4 * i + k, state = place - memory.embedding_floats(), column = 2 * place;
    if (state >= 0) {
      if (state < memory.state) record[memory.dim + state] = word.at[k];
      continue;
    }
    const std::uint32_t two = bits_of(word.at[k]);
    record[column] = Half<kElement>::expand(static_cast<std::uint16_t>(two));
    if (column + 1 < memory.dim) record[column + 1] = Half<kElement>::expand(static_cast<std::uint16_t>(two >> 16));
  }
}

}  // namespace frugal::cuda
