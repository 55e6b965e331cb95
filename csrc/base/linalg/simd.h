// Sixteen floats at a time, on whatever vectors the compiler may use for this file.
//
// Every kernel is written once in terms of Vec and compiled once per instruction set (instruction_set.h). A Vec always
// has sixteen lanes: one AVX-512 register, two AVX2 registers, or an array. Sums therefore have the same partial sums
// in the same order everywhere, and fused multiply-adds happen where fma is written and nowhere else
// (-ffp-contract=off), so results do not depend on the instruction set, to the bit.
#pragma once

#include <cstdint>

#if defined(__SSE2__) && !defined(__CUDACC__)
#include <immintrin.h>
#endif

#include "base/linalg/instruction_set.h"

namespace frugal::FRUGAL_ISA {

inline constexpr int kLanes = 16;

// Vectors that hold so many columns.
inline constexpr std::int64_t whole_vectors(std::int64_t columns) { return (columns + kLanes - 1) / kLanes; }

#if defined(__CUDACC__)

#include "base/linalg/simd_cuda.inc"

#elif defined(__AVX512F__)

struct Vec {
  __m512 v;
};
struct Mask {
  __mmask16 v;
};

FRUGAL_LANES Vec broadcast(float x) { return {_mm512_set1_ps(x)}; }
FRUGAL_LANES Vec load(const float* p) { return {_mm512_loadu_ps(p)}; }
FRUGAL_LANES void store(float* p, Vec a) { _mm512_storeu_ps(p, a.v); }
FRUGAL_LANES Vec load_part(const float* p, int n) {
  return {_mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << n) - 1), p)};
}
FRUGAL_LANES void store_part(float* p, Vec a, int n) {
  _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1u << n) - 1), a.v);
}
FRUGAL_LANES Vec operator+(Vec a, Vec b) { return {_mm512_add_ps(a.v, b.v)}; }
FRUGAL_LANES Vec operator-(Vec a, Vec b) { return {_mm512_sub_ps(a.v, b.v)}; }
FRUGAL_LANES Vec operator*(Vec a, Vec b) { return {_mm512_mul_ps(a.v, b.v)}; }
FRUGAL_LANES Vec operator/(Vec a, Vec b) { return {_mm512_div_ps(a.v, b.v)}; }
FRUGAL_LANES Vec fma(Vec a, Vec b, Vec c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
FRUGAL_LANES Vec max(Vec a, Vec b) { return {_mm512_max_ps(a.v, b.v)}; }
FRUGAL_LANES Vec min(Vec a, Vec b) { return {_mm512_min_ps(a.v, b.v)}; }
FRUGAL_LANES Vec sqrt(Vec a) { return {_mm512_sqrt_ps(a.v)}; }
FRUGAL_LANES Vec round(Vec a) { return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)}; }
FRUGAL_LANES Mask operator<(Vec a, Vec b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ)}; }
FRUGAL_LANES Vec select(Mask m, Vec yes, Vec no) { return {_mm512_mask_blend_ps(m.v, no.v, yes.v)}; }
FRUGAL_LANES Vec abs(Vec a) { return {_mm512_abs_ps(a.v)}; }
// a with the sign of s flipped into it: a * sign(s) for s != 0.
FRUGAL_LANES Vec flip_sign(Vec a, Vec s) {
  const __m512i sign = _mm512_and_si512(_mm512_castps_si512(s.v), _mm512_set1_epi32(INT32_MIN));
  return {_mm512_castsi512_ps(_mm512_xor_si512(_mm512_castps_si512(a.v), sign))};
}
// a, but 0 in the lanes where x is 0.
FRUGAL_LANES Vec zero_where_zero(Vec x, Vec a) {
  return {_mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x.v, _mm512_setzero_ps(), _CMP_NEQ_UQ), a.v)};
}
// -1, 0 or 1: the sign of each lane.
FRUGAL_LANES Vec sign(Vec x) {
  // One answer of four bits per class of number: 0x9 is -1, 0xA is 1, 0x8 is 0; from NaN, NaN, 0, 1, -inf, inf, < 0, >
  // 0.
  const __m512i answers = _mm512_set1_epi32(static_cast<int>(0xA9A9A800u));
  return {_mm512_fixupimm_ps(x.v, x.v, answers, 0)};
}
// 2^n for whole n in [-126, 127].
FRUGAL_LANES Vec power_of_two(Vec n) {
  return {
      _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(_mm512_cvtps_epi32(n.v), _mm512_set1_epi32(127)), 23))};
}
// yes where bit `bit` of the whole number n is set.
FRUGAL_LANES Mask has_bit(Vec n, int bit) {
  return {_mm512_test_epi32_mask(_mm512_cvtps_epi32(n.v), _mm512_set1_epi32(1 << bit))};
}

#elif defined(__AVX2__) && defined(__FMA__)

struct Vec {
  __m256 lo, hi;
};
struct Mask {
  __m256 lo, hi;
};

FRUGAL_LANES __m256i part_mask(int n) {  // the first n of 8 lanes
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
FRUGAL_LANES Vec broadcast(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
FRUGAL_LANES Vec load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
FRUGAL_LANES void store(float* p, Vec a) {
  _mm256_storeu_ps(p, a.lo);
  _mm256_storeu_ps(p + 8, a.hi);
}
FRUGAL_LANES Vec load_part(const float* p, int n) {
  return {_mm256_maskload_ps(p, part_mask(n)),
          n > 8 ? _mm256_maskload_ps(p + 8, part_mask(n - 8)) : _mm256_setzero_ps()};
}
FRUGAL_LANES void store_part(float* p, Vec a, int n) {
  _mm256_maskstore_ps(p, part_mask(n), a.lo);
  if (n > 8) _mm256_maskstore_ps(p + 8, part_mask(n - 8), a.hi);
}
FRUGAL_LANES Vec operator+(Vec a, Vec b) { return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)}; }
FRUGAL_LANES Vec operator-(Vec a, Vec b) { return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)}; }
FRUGAL_LANES Vec operator*(Vec a, Vec b) { return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)}; }
FRUGAL_LANES Vec operator/(Vec a, Vec b) { return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)}; }
FRUGAL_LANES Vec fma(Vec a, Vec b, Vec c) {
  return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}
FRUGAL_LANES Vec max(Vec a, Vec b) { return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)}; }
FRUGAL_LANES Vec min(Vec a, Vec b) { return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)}; }
FRUGAL_LANES Vec sqrt(Vec a) { return {_mm256_sqrt_ps(a.lo), _mm256_sqrt_ps(a.hi)}; }
FRUGAL_LANES Vec round(Vec a) {
  constexpr int mode = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  return {_mm256_round_ps(a.lo, mode), _mm256_round_ps(a.hi, mode)};
}
FRUGAL_LANES Mask operator<(Vec a, Vec b) {
  return {_mm256_cmp_ps(a.lo, b.lo, _CMP_LT_OQ), _mm256_cmp_ps(a.hi, b.hi, _CMP_LT_OQ)};
}
FRUGAL_LANES Vec select(Mask m, Vec yes, Vec no) {
  return {_mm256_blendv_ps(no.lo, yes.lo, m.lo), _mm256_blendv_ps(no.hi, yes.hi, m.hi)};
}
FRUGAL_LANES Vec abs(Vec a) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return {_mm256_andnot_ps(sign, a.lo), _mm256_andnot_ps(sign, a.hi)};
}
FRUGAL_LANES Vec flip_sign(Vec a, Vec s) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return {_mm256_xor_ps(a.lo, _mm256_and_ps(sign, s.lo)), _mm256_xor_ps(a.hi, _mm256_and_ps(sign, s.hi))};
}
FRUGAL_LANES Vec zero_where_zero(Vec x, Vec a) {
  return {_mm256_and_ps(_mm256_cmp_ps(x.lo, _mm256_setzero_ps(), _CMP_NEQ_UQ), a.lo),
          _mm256_and_ps(_mm256_cmp_ps(x.hi, _mm256_setzero_ps(), _CMP_NEQ_UQ), a.hi)};
}
FRUGAL_LANES Vec sign(Vec x) { return zero_where_zero(x, flip_sign(broadcast(1.0f), x)); }
FRUGAL_LANES __m256 power_of_two(__m256 n) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23));
}
FRUGAL_LANES Vec power_of_two(Vec n) { return {power_of_two(n.lo), power_of_two(n.hi)}; }
FRUGAL_LANES __m256 has_bit(__m256 n, int bit) {
  const __m256i wanted = _mm256_set1_epi32(1 << bit);
  return _mm256_castsi256_ps(_mm256_cmpeq_epi32(_mm256_and_si256(_mm256_cvtps_epi32(n), wanted), wanted));
}
FRUGAL_LANES Mask has_bit(Vec n, int bit) { return {has_bit(n.lo, bit), has_bit(n.hi, bit)}; }

#else  // any other processor: arrays, which the compiler turns into its own vectors

struct Vec {
  float x[kLanes];
};
struct Mask {
  bool x[kLanes];
};

template <typename F>
FRUGAL_LANES Vec lanes(F f) {
  Vec out;
  for (int l = 0; l < kLanes; ++l) out.x[l] = f(l);
  return out;
}
FRUGAL_LANES Vec broadcast(float x) {
  return lanes([&](int) { return x; });
}
FRUGAL_LANES Vec load(const float* p) {
  return lanes([&](int l) { return p[l]; });
}
FRUGAL_LANES void store(float* p, Vec a) {
  for (int l = 0; l < kLanes; ++l) p[l] = a.x[l];
}
FRUGAL_LANES Vec load_part(const float* p, int n) {
  return lanes([&](int l) { return l < n ? p[l] : 0.0f; });
}
FRUGAL_LANES void store_part(float* p, Vec a, int n) {
  for (int l = 0; l < n; ++l) p[l] = a.x[l];
}
FRUGAL_LANES Vec operator+(Vec a, Vec b) {
  return lanes([&](int l) { return a.x[l] + b.x[l]; });
}
FRUGAL_LANES Vec operator-(Vec a, Vec b) {
  return lanes([&](int l) { return a.x[l] - b.x[l]; });
}
FRUGAL_LANES Vec operator*(Vec a, Vec b) {
  return lanes([&](int l) { return a.x[l] * b.x[l]; });
}
FRUGAL_LANES Vec operator/(Vec a, Vec b) {
  return lanes([&](int l) { return a.x[l] / b.x[l]; });
}
FRUGAL_LANES Vec fma(Vec a, Vec b, Vec c) {
  return lanes([&](int l) { return __builtin_fmaf(a.x[l], b.x[l], c.x[l]); });
}
FRUGAL_LANES Vec max(Vec a, Vec b) {
  return lanes([&](int l) { return a.x[l] > b.x[l] ? a.x[l] : b.x[l]; });
}
FRUGAL_LANES Vec min(Vec a, Vec b) {
  return lanes([&](int l) { return a.x[l] < b.x[l] ? a.x[l] : b.x[l]; });
}
FRUGAL_LANES Vec sqrt(Vec a) {
  return lanes([&](int l) { return __builtin_sqrtf(a.x[l]); });
}
FRUGAL_LANES Vec round(Vec a) {
  return lanes([&](int l) { return __builtin_rintf(a.x[l]); });
}
FRUGAL_LANES Mask operator<(Vec a, Vec b) {
  Mask out;
  for (int l = 0; l < kLanes; ++l) out.x[l] = a.x[l] < b.x[l];
  return out;
}
FRUGAL_LANES Vec select(Mask m, Vec yes, Vec no) {
  return lanes([&](int l) { return m.x[l] ? yes.x[l] : no.x[l]; });
}
FRUGAL_LANES Vec abs(Vec a) {
  return lanes([&](int l) { return __builtin_fabsf(a.x[l]); });
}
FRUGAL_LANES Vec flip_sign(Vec a, Vec s) {
  return lanes([&](int l) { return __builtin_signbit(s.x[l]) ? -a.x[l] : a.x[l]; });
}
FRUGAL_LANES Vec zero_where_zero(Vec x, Vec a) {
  return lanes([&](int l) { return x.x[l] != 0.0f ? a.x[l] : 0.0f; });
}
FRUGAL_LANES Vec sign(Vec x) { return zero_where_zero(x, flip_sign(broadcast(1.0f), x)); }
FRUGAL_LANES Vec power_of_two(Vec n) {
  return lanes([&](int l) { return __builtin_ldexpf(1.0f, static_cast<int>(n.x[l])); });
}
FRUGAL_LANES Mask has_bit(Vec n, int bit) {
  Mask out;
  for (int l = 0; l < kLanes; ++l) out.x[l] = (static_cast<std::int32_t>(n.x[l]) >> bit) & 1;
  return out;
}

#endif

#ifndef __CUDACC__
// x^exponent in lanes above 0, else 0. Slow, and as exact as the platform's pow.
FRUGAL_LANES Vec positive_power(Vec x, float exponent) {
  float lanes[kLanes];
  store(lanes, x);
  for (float& each : lanes) each = each > 0.0f ? __builtin_powf(each, exponent) : 0.0f;
  return load(lanes);
}
// The number that every lane has.
FRUGAL_LANES float common_value(Vec a) {
  float x[kLanes];
  store(x, a);
  return x[0];
}
// Lanes are one thread here; on a CUDA device they wait for each other.
FRUGAL_LANES void sync_lanes() {}
// The lanes folded in halves: always the same tree.
#if defined(__AVX2__) && defined(__FMA__)
FRUGAL_LANES float fold_sum(Vec a) {
#if defined(__AVX512F__)
  const __m256 lo = _mm512_castps512_ps256(a.v), hi = _mm512_extractf32x8_ps(a.v, 1);
#else
  const __m256 lo = a.lo, hi = a.hi;
#endif
  const __m256 eight = _mm256_add_ps(lo, hi);
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
#else
FRUGAL_LANES float fold_sum(Vec a) {
  float x[kLanes];
  store(x, a);
  for (int half = kLanes / 2; half > 0; half /= 2)
    for (int l = 0; l < half; ++l) x[l] += x[l + half];
  return x[0];
}
#endif
FRUGAL_LANES float fold_max(Vec a) {
  float x[kLanes];
  store(x, a);
  float largest = x[0];
  for (int l = 1; l < kLanes; ++l) largest = x[l] > largest ? x[l] : largest;
  return largest;
}
#endif

}  // namespace frugal::FRUGAL_ISA
