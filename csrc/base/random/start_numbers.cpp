// Loops of kBlocks counters that the compiler turns into vectors. Products and sums are rounded one by one
// (-ffp-contract=off) and logarithm, sine and cosine are polynomials here, so that the bits are the same on every
// processor and with every C library.
#include "base/random/start_numbers.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/random/philox.h"

namespace frugal {
namespace {

constexpr int kBlocks = 16;                 // counters side by side
constexpr std::int64_t kWords = 4 * kBlocks;  // numbers that they give
using Columns = PhiloxColumns<kBlocks>;

// make(columns, numbers) gives all numbers of kBlocks counters, of which those from `first` on are wanted.
template <class Make>
void fill_by_blocks(std::uint64_t seed, std::uint64_t stream, float* values, std::uint64_t first, std::int64_t count,
                    const Make& make) {
  float numbers[kWords];
  for (std::int64_t k = 0; k < count;) {
    const std::uint64_t index = first + static_cast<std::uint64_t>(k);
    const auto skipped = static_cast<std::int64_t>(index % 4);
    const std::int64_t wanted = std::min(kWords - skipped, count - k);
    const Columns columns = philox_columns<kBlocks>(seed, index / 4, stream);
    if (wanted == kWords) {
      make(columns, values + k);
    } else {
      make(columns, numbers);
      std::copy_n(numbers + skipped, wanted, values + k);
    }
    k += wanted;
  }
}

// log(x) - log(2^32) for whole x from 1 to 2^32: the method of fdlibm's e_log.c.
inline double log_of_share(double x) {
  constexpr double kLn2High = 6.93147180369123816490e-01, kLn2Low = 1.90821492927058770002e-10;
  constexpr std::uint64_t kOne = 0x3FF0000000000000u, kRootHalf = 0x3FE6A09E00000000u;  // bits of 1 and of sqrt(1/2)
  const auto bits = std::bit_cast<std::uint64_t>(x) + (kOne - kRootHalf);
  // x is 2^exponent m with m from sqrt(1/2) to sqrt(2). The low bits of the number 2^52 + e are e.
  const double exponent = std::bit_cast<double>((bits >> 52) | 0x4330000000000000u) - (0x1p52 + 1023 + 32);
  const double m = std::bit_cast<double>((bits & 0x000FFFFFFFFFFFFFu) + kRootHalf);
  const double f = m - 1.0, s = f / (2.0 + f), z = s * s, w = z * z;
  const double even = w * (3.999999999940941908e-01 + w * (2.222219843214978396e-01 + w * 1.531383769920937332e-01));
  const double odd =
      z * (6.666666666666735130e-01 +
           w * (2.857142874366239149e-01 + w * (1.818357216161805012e-01 + w * 1.479819860511658591e-01)));
  const double half_square = 0.5 * f * f;
  return exponent * kLn2High - ((half_square - (s * (half_square + (even + odd)) + exponent * kLn2Low)) - f);
}

struct SineCosine {
  double sine, cosine;
};

// Of the angle that is quarter quarters of a turn, from 0 to 4: fdlibm's kernels for up to an eighth of a turn.
inline SineCosine sine_cosine_of_quarters(double quarter) {
  constexpr double kToWhole = 0x1.8p52, kHalfPi = 1.57079632679489661923;
  const double rounded = quarter + kToWhole, whole = rounded - kToWhole;  // the nearest whole number, 0 to 4
  const double x = (quarter - whole) * kHalfPi, z = x * x;
  const double sine_rest =
      8.33333333332248946124e-03 +
      z * (-1.98412698298579493134e-04 +
           z * (2.75573137070700676789e-06 + z * (-2.50507602534068634195e-08 + z * 1.58969099521155010221e-10)));
  const double sine = x + z * x * (-1.66666666666666324348e-01 + z * sine_rest);
  const double cosine_rest =
      z * (4.16666666666666019037e-02 +
           z * (-1.38888888888741095749e-03 +
                z * (2.48015872894767294178e-05 +
                     z * (-2.75573143513906633035e-07 +
                          z * (2.08757232129817482790e-09 + z * -1.13596475577881948265e-11)))));
  const double half = 0.5 * z, near = 1.0 - half;
  const double cosine = near + (((1.0 - near) - half) + z * cosine_rest);
  // The whole number is in the low bits of `rounded`. A branch would keep lanes from running side by side.
  const auto turns = std::bit_cast<std::uint64_t>(rounded), odd = 0 - (turns & 1);
  const auto sines = std::bit_cast<std::uint64_t>(sine), cosines = std::bit_cast<std::uint64_t>(cosine);
  const auto swapped = (sines ^ cosines) & odd;
  return {std::bit_cast<double>((sines ^ swapped) ^ (turns & 2) << 62),
          std::bit_cast<double>((cosines ^ swapped) ^ ((turns + 1) & 2) << 62)};
}

// A word of 32 bits as a number, by way of a signed one: processors convert those side by side.
inline double number(std::uint32_t word) {
  return static_cast<double>(static_cast<std::int32_t>(word ^ 0x80000000u)) + 0x1p31;
}

}  // namespace

void CounterUniform::fill(float* values, std::uint64_t first, std::int64_t count) const {
  fill_by_blocks(seed_, stream_, values, first, count, [this](const Columns& columns, float* out) {
    for (int i = 0; i < kBlocks; ++i)
      for (int word = 0; word < 4; ++word) {
        const auto bits = static_cast<std::int32_t>(columns.at[word][i] >> 8);
        out[4 * i + word] = low_ + width_ * (static_cast<float>(bits) * 0x1p-24f);
      }
  });
}

void CounterNormal::fill(float* values, std::uint64_t first, std::int64_t count) const {
  fill_by_blocks(seed_, stream_, values, first, count, [this](const Columns& columns, float* out) {
    float normal[4][kBlocks];
    for (int word = 0; word < 4; word += 2)
      for (int i = 0; i < kBlocks; ++i) {
        const double radius = deviation_ * std::sqrt(-2.0 * log_of_share(number(columns.at[word][i]) + 1.0));
        const auto [sine, cosine] = sine_cosine_of_quarters(number(columns.at[word + 1][i]) * 0x1p-30);
        normal[word][i] = static_cast<float>(mean_ + radius * cosine);
        normal[word + 1][i] = static_cast<float>(mean_ + radius * sine);
      }
    for (int i = 0; i < kBlocks; ++i)
      for (int word = 0; word < 4; ++word) out[4 * i + word] = normal[word][i];
  });
}

}  // namespace frugal
