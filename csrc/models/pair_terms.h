// How two rows differ, column by column: written once for both machines, and compiled without contraction on both, so
// that they give the same bits.
#pragma once

#include <cmath>
#include <cstdint>

#ifdef __CUDACC__
#define FRUGAL_PAIR_CODE __host__ __device__ inline
#else
#define FRUGAL_PAIR_CODE inline
#endif

namespace frugal {

enum class PairKind {
  kAbsolute,  // sum |a - b|
  kModulus,   // sum of complex moduli |a - b|: real parts in the first half of a row, imaginary parts in the second
};

// Rows of pairs of chunks: (chunks, rows, columns), contiguous.
struct PairShape {
  std::int64_t chunks, mine, theirs, columns;
};

// The weight of pair (i, j) of chunk c is data[c * chunk + i * mine + j * theirs].
struct PairWeights {
  const float* data;
  std::int64_t chunk, mine, theirs;
};

template <PairKind kKind>
struct PairTerm;

// A term takes `kParts` columns of each row: k, and for moduli k plus half the columns.
template <>
struct PairTerm<PairKind::kAbsolute> {
  static constexpr int kParts = 1;
  FRUGAL_PAIR_CODE static float distance(const float* d) { return std::fabs(d[0]); }
  // Adds weight * d distance / d difference; 0 where the difference is.
  FRUGAL_PAIR_CODE static void add_gradient(const float* d, float weight, float* sum) {
    sum[0] += d[0] > 0.0f ? weight : d[0] < 0.0f ? -weight : 0.0f;
  }
};

template <>
struct PairTerm<PairKind::kModulus> {
  static constexpr int kParts = 2;
  FRUGAL_PAIR_CODE static float distance(const float* d) { return std::sqrt(d[0] * d[0] + d[1] * d[1]); }
  FRUGAL_PAIR_CODE static void add_gradient(const float* d, float weight, float* sum) {
    const float modulus = distance(d), ratio = modulus > 0.0f ? weight / modulus : 0.0f;
    sum[0] += ratio * d[0];
    sum[1] += ratio * d[1];
  }
};

}  // namespace frugal
