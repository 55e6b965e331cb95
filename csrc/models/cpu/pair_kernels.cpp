#include "models/cpu/pair_kernels.h"

#include <algorithm>
#include <vector>

#include "base/parallel/thread_pool.h"

namespace frugal::cpu {
namespace {

constexpr std::int64_t kPairRowsPerTask = 8;

template <PairKind kKind>
void distances_of(const PairShape& s, const float* mine, const float* theirs, float* distances) {
  using Term = PairTerm<kKind>;
  const std::int64_t terms = s.columns / Term::kParts;
  std::vector<float> turned(s.theirs * s.columns);  // a chunk's rows as columns: the innermost loop is over them
  for (std::int64_t chunk = 0; chunk < s.chunks; ++chunk) {
    const float* others = theirs + chunk * s.theirs * s.columns;
    for (std::int64_t j = 0; j < s.theirs; ++j)
      for (std::int64_t k = 0; k < s.columns; ++k) turned[k * s.theirs + j] = others[j * s.columns + k];
    default_pool()->parallel_for(s.mine, kPairRowsPerTask, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const float* row = mine + (chunk * s.mine + i) * s.columns;
        float* __restrict sums = distances + (chunk * s.mine + i) * s.theirs;
        std::fill_n(sums, s.theirs, 0.0f);
        for (std::int64_t k = 0; k < terms; ++k)
          for (std::int64_t j = 0; j < s.theirs; ++j) {
            float d[Term::kParts];
            for (int part = 0; part < Term::kParts; ++part)
              d[part] = row[k + part * terms] - turned[(k + part * terms) * s.theirs + j];
            sums[j] += Term::distance(d);
          }
      }
    });
  }
}

template <PairKind kKind>
void gradients_of(const PairShape& s, const float* mine, const float* theirs, const PairWeights& w, float* gradients) {
  using Term = PairTerm<kKind>;
  const std::int64_t terms = s.columns / Term::kParts;
  default_pool()->parallel_for(s.chunks * s.mine, kPairRowsPerTask, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t chunk = row / s.mine, i = row % s.mine;
      const float* own = mine + row * s.columns;
      float* __restrict out = gradients + row * s.columns;
      std::fill_n(out, s.columns, 0.0f);
      for (std::int64_t j = 0; j < s.theirs; ++j) {
        const float weight = w.data[chunk * w.chunk + i * w.mine + j * w.theirs];
        const float* other = theirs + (chunk * s.theirs + j) * s.columns;
        for (std::int64_t k = 0; k < terms; ++k) {
          float d[Term::kParts], sum[Term::kParts];
          for (int part = 0; part < Term::kParts; ++part) {
            d[part] = own[k + part * terms] - other[k + part * terms];
            sum[part] = out[k + part * terms];
          }
          Term::add_gradient(d, weight, sum);
          for (int part = 0; part < Term::kParts; ++part) out[k + part * terms] = sum[part];
        }
      }
    }
  });
}

}  // namespace

void pair_distances(PairKind kind, const PairShape& shape, const float* mine, const float* theirs, float* distances) {
  const auto of_kind =
      kind == PairKind::kModulus ? distances_of<PairKind::kModulus> : distances_of<PairKind::kAbsolute>;
  of_kind(shape, mine, theirs, distances);
}

void pair_gradients(PairKind kind, const PairShape& shape, const float* mine, const float* theirs,
                    const PairWeights& weights, float* gradients) {
  const auto of_kind =
      kind == PairKind::kModulus ? gradients_of<PairKind::kModulus> : gradients_of<PairKind::kAbsolute>;
  of_kind(shape, mine, theirs, weights, gradients);
}

}  // namespace frugal::cpu
