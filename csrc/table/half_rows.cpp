#include "table/half_rows.h"

#include <algorithm>

#ifdef __F16C__
#include <immintrin.h>
#endif

#include "base/half.h"

namespace frugal {
namespace {

const std::uint16_t* half_bits(const float* record) { return reinterpret_cast<const std::uint16_t*>(record); }
std::uint16_t* half_bits(float* record) { return reinterpret_cast<std::uint16_t*>(record); }

// How many of the elements the processor's own conversion has done.
std::int64_t expand_with_f16c([[maybe_unused]] const std::uint16_t* from, [[maybe_unused]] std::int64_t count,
                              [[maybe_unused]] float* to) {
  std::int64_t i = 0;
#if defined(__AVX512F__)
  for (; i + 16 <= count; i += 16)
    _mm512_storeu_ps(to + i, _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i))));
#endif
#if defined(__F16C__)
  for (; i + 8 <= count; i += 8)
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i))));
#endif
  return i;
}

// Neighbours, `count` of them; first: the column of a whole row that the first one is.
void round_neighbours(const float* __restrict values, std::uint16_t* __restrict to, std::int64_t first,
                      std::int64_t count, const RoundingNoise& noise) {
  std::uint32_t bits[kNoiseColumns];
  for (std::int64_t group = first / kNoiseColumns * kNoiseColumns; group < first + count; group += kNoiseColumns) {
    const auto words = philox_columns<kNoiseLanes>(noise.seed, noise.low + RoundingNoise::block_of(group), noise.high);
    for (int k = 0; k < kNoiseVectors; ++k)
      for (int lane = 0; lane < kNoiseLanes; ++lane)
        bits[k * kNoiseLanes + lane] = words.at[k / 2][lane] >> 16 * (k % 2) & 0xffffu;
    const std::int64_t begin = std::max(first, group), end = std::min(first + count, group + kNoiseColumns);
    const std::uint32_t* const own = bits + (begin - group);
    const std::int64_t done = begin - first;
    for (std::int64_t i = 0; i < end - begin; ++i) to[done + i] = Half::round(values[done + i], own[i]);
  }
}

}  // namespace

void expand_embedding(const RowLayout& layout, const float* record, float* __restrict values) {
  const std::uint16_t* __restrict from = half_bits(record);
  for (std::int64_t i = expand_with_f16c(from, layout.dim, values); i < layout.dim; ++i)
    values[i] = Half::expand(from[i]);
}

void round_embedding(const RowLayout& layout, const float* __restrict values, float* record,
                     const RoundingNoise& noise, const WholeColumns& columns) {
  const std::int64_t turn = std::min<std::int64_t>(columns.turn, layout.dim);
  round_neighbours(values, half_bits(record), columns.first, turn, noise);
  if (turn < layout.dim)
    round_neighbours(values + turn, half_bits(record) + turn, columns.second, layout.dim - turn, noise);
}

void round_embedding_to_nearest(const RowLayout& layout, const float* __restrict values, float* record) {
  std::uint16_t* __restrict to = half_bits(record);
  for (std::int64_t i = 0; i < layout.dim; ++i) to[i] = Half::round_to_nearest(values[i]);
}

void expand_record(const RowLayout& layout, const float* record, float* expanded) {
  expand_embedding(layout, record, expanded);
  std::copy_n(record + layout.state_offset(), layout.state, expanded + layout.dim);
}

void round_record(const RowLayout& layout, const float* expanded, float* record, const RoundingNoise& noise,
                  const WholeColumns& columns) {
  round_embedding(layout, expanded, record, noise, columns);
  std::copy_n(expanded + layout.dim, layout.state, record + layout.state_offset());
}

}  // namespace frugal
