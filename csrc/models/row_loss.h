// Loss and derivative of one positive, and of the row of its negatives.
#pragma once

#include "base/linalg/vector_math.h"
#include "models/loss.h"

namespace frugal::FRUGAL_ISA {

// The score of columns that only fill up a vector: low enough that every loss, derivative and softmax weight is 0.
inline constexpr float kNoScore = -1e30f;

// Vectors of a row that are loaded before one is stored, so that their work overlaps; and, on a device, half-warps of a
// block that share a row's vectors, every kRowTeams-th of them each.
#ifdef __CUDACC__
inline constexpr int kVectorsAtOnce = 4, kRowTeams = 4;
FRUGAL_LANES int row_team() { return threadIdx.x / kLanes % kRowTeams; }
FRUGAL_LANES void sync_teams() { __syncthreads(); }
#else
inline constexpr int kVectorsAtOnce = 1, kRowTeams = 1;
FRUGAL_LANES int row_team() { return 0; }
FRUGAL_LANES void sync_teams() {}
#endif

struct LossVec {
  Vec loss, derivative;
};

struct Softplus {  // l(x) = log(1 + e^-x), computed from e^-|x|, which cannot overflow
  FRUGAL_DEVICE LossVec operator()(Vec x) const {
    const Vec zero = broadcast(0.0f), one = broadcast(1.0f);
    const Vec e = exp(zero - abs(x));
    const Vec sigmoid = select(x < zero, one, e) / (one + e);  // of -x
    return {max(zero, zero - x) + log1p_unit(e), zero - sigmoid};
  }
};

struct Hinge {  // l(x) = max(0, margin - x); its derivative at the kink is -1, as in DGL-KE
  Vec margin;
  FRUGAL_DEVICE LossVec operator()(Vec x) const {
    const Vec zero = broadcast(0.0f), loss = margin - x;
    return {max(zero, loss), select(loss < zero, zero, broadcast(-1.0f))};
  }
};

struct RowLoss {
  float loss;                 // of the row, before edge importance
  float positive_derivative;  // d loss / d s+, times scale: of a joint loss, else 0
};

// Calls body(v, x) for each vector x of a row that is the team's, which may change it.
template <typename Body>
FRUGAL_LANES void for_vectors(std::int64_t vectors, float* row, Body body) {
  constexpr int kAtOnce = kVectorsAtOnce;
  std::int64_t v = row_team();
  for (; v + (kAtOnce - 1) * kRowTeams < vectors; v += kAtOnce * kRowTeams) {
    Vec x[kAtOnce];
    for (int k = 0; k < kAtOnce; ++k) x[k] = load(row + (v + k * kRowTeams) * kLanes);
    for (int k = 0; k < kAtOnce; ++k) body(v + k * kRowTeams, x[k]);
    for (int k = 0; k < kAtOnce; ++k) store(row + (v + k * kRowTeams) * kLanes, x[k]);
  }
  for (; v < vectors; v += kRowTeams) {
    Vec x = load(row + v * kLanes);
    body(v, x);
    store(row + v * kLanes, x);
  }
}

// Two numbers for each lane: of a vector of scores, or their sums.
struct Terms {
  Vec first, second;
};

// The sums, from 0 on, of what term(x) gives for each vector x of a row, which it may change: add(sums, terms) in the
// order of vectors. terms: on a device, room for two more rows.
template <typename Term, typename Add>
FRUGAL_LANES Terms sum_vectors(std::int64_t vectors, float* row, [[maybe_unused]] float* terms, Term term, Add add) {
  Terms sums{broadcast(0.0f), broadcast(0.0f)};
#ifdef __CUDACC__
  float* const second = terms + vectors * kLanes;
  for_vectors(vectors, row, [&](std::int64_t v, Vec& x) {
    const Terms of = term(x);
    store(terms + v * kLanes, of.first);
    store(second + v * kLanes, of.second);
  });
  sync_teams();
#pragma unroll 8
  for (std::int64_t v = 0; v < vectors; ++v) add(sums, Terms{load(terms + v * kLanes), load(second + v * kLanes)});
#else
  for_vectors(vectors, row, [&](std::int64_t, Vec& x) { add(sums, term(x)); });
#endif
  return sums;
}
FRUGAL_LANES void add_terms(Terms& sums, const Terms& of) {
  sums = {sums.first + of.first, sums.second + of.second};
}

// scores: `vectors` vectors, the first n scores and then kNoScore; replaced by scale * d loss / d score, each by its
// team. terms: as sum_vectors has it.
template <typename Loss>
FRUGAL_LANES RowLoss row_loss(Loss l, const LossSpec& spec, float positive_score, float scale, std::int64_t n,
                              std::int64_t vectors, float* scores, float* terms) {
  const Vec zero = broadcast(0.0f);
  const auto add = [](Terms& sums, const Terms& of) { add_terms(sums, of); };
  if (spec.pairwise) {
    const Vec each = broadcast(scale / static_cast<float>(n)), positive = broadcast(positive_score);
    const auto term = [&](Vec& x) {
      const LossVec pair = l(positive - x);
      const Vec derivative = pair.derivative * each;
      x = zero - derivative;
      return Terms{pair.loss, derivative};
    };
    const Terms sums = sum_vectors(vectors, scores, terms, term, add);
    return {fold_sum(sums.first) / static_cast<float>(n), fold_sum(sums.second)};
  }
  if (!spec.adversarial) {
    const Vec each = broadcast(-scale / static_cast<float>(n));
    const auto term = [&](Vec& x) {
      const LossVec pair = l(zero - x);
      x = pair.derivative * each;
      return Terms{pair.loss, zero};
    };
    return {fold_sum(sum_vectors(vectors, scores, terms, term, add).first) / static_cast<float>(n), 0.0f};
  }
  const Vec temperature = broadcast(spec.temperature);
  Vec largest = load(scores) * temperature;
  for (std::int64_t v = 1; v < vectors; ++v) largest = max(largest, load(scores + v * kLanes) * temperature);
  const Vec top = broadcast(fold_max(largest));
  sync_teams();  // everybody has seen the scores
  const auto term = [&](Vec& x) {
    const LossVec pair = l(zero - x);
    const Vec weight = exp(x * temperature - top);
    x = weight * pair.derivative;
    return Terms{weight, pair.loss};
  };
  const Terms sums = sum_vectors(vectors, scores, terms, term, [](Terms& to, const Terms& of) {
    to = {to.first + of.first, fma(of.first, of.second, to.second)};
  });
  const float sum = fold_sum(sums.first);
  const Vec each = broadcast(-scale / sum);
  for_vectors(vectors, scores, [&](std::int64_t, Vec& x) { x = x * each; });
  return {fold_sum(sums.second) / sum, 0.0f};
}

// Cross-entropy of the positive among its negatives; scores as above. No power of e is above 1, and the positive's
// derivative is a sum of the negatives' shares, not a difference of numbers near 1.
FRUGAL_LANES RowLoss softmax_loss(float positive_score, float scale, std::int64_t vectors, float* scores,
                                  float* terms) {
  Vec largest = broadcast(positive_score);
  for (std::int64_t v = 0; v < vectors; ++v) largest = max(largest, load(scores + v * kLanes));
  const Vec top = broadcast(fold_max(largest));
  sync_teams();  // everybody has seen the scores
  const auto term = [&](Vec& x) {
    x = exp(x - top);
    return Terms{x, x};
  };
  const Terms sums = sum_vectors(vectors, scores, terms, term,
                                 [](Terms& to, const Terms& of) { to.first = to.first + of.first; });
  const float negatives = fold_sum(sums.first), highest = common_value(top);
  const float sum = negatives + common_value(exp(broadcast(positive_score - highest)));
  const Vec each = broadcast(scale / sum);
  for_vectors(vectors, scores, [&](std::int64_t, Vec& x) { x = x * each; });
  return {log_from_one(sum) + (highest - positive_score), -scale * (negatives / sum)};
}

// body(l) with the function of a loss that is none of a softmax.
template <typename Body>
FRUGAL_LANES auto with_loss(const LossSpec& spec, Body body) {
  if (spec.genre == LossGenre::kHinge) return body(Hinge{broadcast(spec.margin)});
  return body(Softplus{});
}

FRUGAL_LANES RowLoss row_loss(const LossSpec& spec, float positive_score, float scale, std::int64_t n,
                              std::int64_t vectors, float* scores, float* terms) {
  if (spec.genre == LossGenre::kSoftmax) return softmax_loss(positive_score, scale, vectors, scores, terms);
  return with_loss(
      spec, [&](auto l) { return row_loss(l, spec, positive_score, scale, n, vectors, scores, terms); });
}

FRUGAL_LANES LossValue positive_loss(const LossSpec& spec, float score) {
  const LossVec value = with_loss(spec, [&](auto l) { return l(broadcast(score)); });
  return {common_value(value.loss), common_value(value.derivative)};
}

}  // namespace frugal::FRUGAL_ISA
