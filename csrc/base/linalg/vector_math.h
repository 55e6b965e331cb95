// exp, log(1 + x), sine and cosine of sixteen floats, within about two units in the last place.
//
// Own polynomials instead of libm: vectorised, and the same bits on every machine.
#pragma once

#include "base/linalg/simd.h"

namespace frugal::FRUGAL_ISA {

// e^x for x <= 88; 0 below -87 (where the result would be subnormal), and NaN of NaN.
FRUGAL_LANES Vec exp(Vec x) {
  const Vec lowest = broadcast(-87.0f);
  const Mask vanishes = x < lowest;
  const Vec clamped = max(lowest, x);
  const Vec n = round(clamped * broadcast(1.44269504088896341f));
  Vec r = fma(n, broadcast(-0.693359375f), clamped);  // ln 2 in two parts, so that r keeps its low bits
  r = fma(n, broadcast(2.12194440e-4f), r);
  Vec p = broadcast(1.9875691500e-4f);
  p = fma(p, r, broadcast(1.3981999507e-3f));
  p = fma(p, r, broadcast(8.3334519073e-3f));
  p = fma(p, r, broadcast(4.1665795894e-2f));
  p = fma(p, r, broadcast(1.6666665459e-1f));
  p = fma(p, r, broadcast(5.0000001201e-1f));
  p = fma(p, r * r, r) + broadcast(1.0f);
  return select(vanishes, broadcast(0.0f), p * power_of_two(n));
}

// log(1 + x) for x in [0, 1]: 2 artanh(z) with z = x / (2 + x) <= 1/3, whose series converges fast.
FRUGAL_LANES Vec log1p_unit(Vec x) {
  const Vec z = x / (broadcast(2.0f) + x);
  const Vec s = z * z;
  Vec p = broadcast(2.0f / 15.0f);
  p = fma(p, s, broadcast(2.0f / 13.0f));
  p = fma(p, s, broadcast(2.0f / 11.0f));
  p = fma(p, s, broadcast(2.0f / 9.0f));
  p = fma(p, s, broadcast(2.0f / 7.0f));
  p = fma(p, s, broadcast(2.0f / 5.0f));
  p = fma(p, s, broadcast(2.0f / 3.0f));
  return fma(p * s, z, z + z);
}

// log x for x >= 1: x is 2^n (1 + rest), by exact halving.
FRUGAL_LANES float log_from_one(float x) {
  float n = 0.0f;
  for (; x >= 2.0f; x *= 0.5f) n += 1.0f;
  return n * 0.693147180559945309f + common_value(log1p_unit(broadcast(x - 1.0f)));
}

struct SineCosine {
  Vec sine, cosine;
};

// For |x| up to a few thousand: x minus the nearest multiple of pi/2 in three parts, then a polynomial each.
FRUGAL_LANES SineCosine sine_cosine(Vec x) {
  const Vec n = round(x * broadcast(0.636619772367581343f));
  Vec r = fma(n, broadcast(-1.5703125f), x);
  r = fma(n, broadcast(-4.837512969970703125e-4f), r);
  r = fma(n, broadcast(-7.54978995489188216e-8f), r);
  const Vec s = r * r;
  Vec sine = broadcast(-1.9515295891e-4f);
  sine = fma(sine, s, broadcast(8.3321608736e-3f));
  sine = fma(sine, s, broadcast(-1.6666654611e-1f));
  sine = fma(sine * s, r, r);
  Vec cosine = broadcast(2.443315711809948e-5f);
  cosine = fma(cosine, s, broadcast(-1.388731625493765e-3f));
  cosine = fma(cosine, s, broadcast(4.166664568298827e-2f));
  cosine = fma(cosine, s * s, fma(broadcast(-0.5f), s, broadcast(1.0f)));
  const Mask odd = has_bit(n, 0);
  const Vec minus = broadcast(-0.0f), plus = broadcast(0.0f);
  return {flip_sign(select(odd, cosine, sine), select(has_bit(n, 1), minus, plus)),
          flip_sign(select(odd, sine, cosine), select(has_bit(n + broadcast(1.0f), 1), minus, plus))};
}

}  // namespace frugal::FRUGAL_ISA
