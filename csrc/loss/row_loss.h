// Loss and derivative of one positive, and of the row of its negatives.
#pragma once

#include "linalg/vector_math.h"
#include "loss/loss.h"

namespace frugal::FRUGAL_ISA {

// The score of columns that only fill up a vector: low enough that every loss, derivative and softmax weight is 0.
inline constexpr float kNoScore = -1e30f;

// Vectors of a row that are loaded before one is stored, so that their work overlaps.
#ifdef __CUDACC__
inline constexpr int kVectorsAtOnce = 4;
#else
inline constexpr int kVectorsAtOnce = 1;
#endif

struct LossVec {
  Vec loss, derivative;
};

struct Softplus {  // l(x) = log(1 + e^-x), computed from e^-|x|, which cannot overflow
  FRUGAL_DEVICE LossVec operator()(Vec x) const {
    const Vec zero = broadcast(0.0f), one = broadcast(1.0f);
    const Vec e = exp(zero - abs(x));
    const Vec sigmoid = select(x < zero, one, e) / (one + e);  // of -x
    return {max(zero - x, zero) + log1p_unit(e), zero - sigmoid};
  }
};

struct Hinge {  // l(x) = max(0, margin - x); its derivative at the kink is -1, as in DGL-KE
  Vec margin;
  FRUGAL_DEVICE LossVec operator()(Vec x) const {
    const Vec zero = broadcast(0.0f), loss = margin - x;
    return {max(loss, zero), select(loss < zero, zero, broadcast(-1.0f))};
  }
};

struct RowLoss {
  float loss;                 // of the row, before edge importance
  float positive_derivative;  // d loss / d s+, times scale: of a joint loss, else 0
};

// Calls body(v, x) for each vector x of a row, which may change it.
template <typename Body>
FRUGAL_LANES void for_vectors(std::int64_t vectors, float* row, Body body) {
  constexpr int kAtOnce = kVectorsAtOnce;
  std::int64_t v = 0;
  for (; v + kAtOnce <= vectors; v += kAtOnce) {
    Vec x[kAtOnce];
    for (int k = 0; k < kAtOnce; ++k) x[k] = load(row + (v + k) * kLanes);
    for (int k = 0; k < kAtOnce; ++k) body(v + k, x[k]);
    for (int k = 0; k < kAtOnce; ++k) store(row + (v + k) * kLanes, x[k]);
  }
  for (; v < vectors; ++v) {
    Vec x = load(row + v * kLanes);
    body(v, x);
    store(row + v * kLanes, x);
  }
}

// scores: `vectors` vectors, the first n scores and then kNoScore; replaced by scale * d loss / d score.
template <typename Loss>
FRUGAL_LANES RowLoss row_loss(Loss l, const LossSpec& spec, float positive_score, float scale, std::int64_t n,
                              std::int64_t vectors, float* scores) {
  const Vec zero = broadcast(0.0f);
  Vec loss = zero;
  if (spec.pairwise) {
    const Vec each = broadcast(scale / static_cast<float>(n)), positive = broadcast(positive_score);
    Vec derivative = zero;
    for_vectors(vectors, scores, [&](std::int64_t, Vec& x) {
      const LossVec pair = l(positive - x);
      loss = loss + pair.loss;
      derivative = derivative + pair.derivative * each;
      x = zero - pair.derivative * each;
    });
    return {fold_sum(loss) / static_cast<float>(n), fold_sum(derivative)};
  }
  if (!spec.adversarial) {
    const Vec each = broadcast(-scale / static_cast<float>(n));
    for_vectors(vectors, scores, [&](std::int64_t, Vec& x) {
      const LossVec pair = l(zero - x);
      loss = loss + pair.loss;
      x = pair.derivative * each;
    });
    return {fold_sum(loss) / static_cast<float>(n), 0.0f};
  }
  const Vec temperature = broadcast(spec.temperature);
  Vec largest = load(scores) * temperature;
  for (std::int64_t v = 1; v < vectors; ++v) largest = max(largest, load(scores + v * kLanes) * temperature);
  const Vec top = broadcast(fold_max(largest));
  Vec total = zero;
  for_vectors(vectors, scores, [&](std::int64_t, Vec& x) {
    const LossVec pair = l(zero - x);
    const Vec weight = exp(x * temperature - top);
    total = total + weight;
    loss = fma(weight, pair.loss, loss);
    x = weight * pair.derivative;
  });
  const float sum = fold_sum(total);
  const Vec each = broadcast(-scale / sum);
  for_vectors(vectors, scores, [&](std::int64_t, Vec& x) { x = x * each; });
  return {fold_sum(loss) / sum, 0.0f};
}

// Cross-entropy of the positive among its negatives; scores as above. No power of e is above 1, and the positive's
// derivative is a sum of the negatives' shares, not a difference of numbers near 1.
FRUGAL_LANES RowLoss softmax_loss(float positive_score, float scale, std::int64_t vectors, float* scores) {
  Vec largest = broadcast(positive_score);
  for (std::int64_t v = 0; v < vectors; ++v) largest = max(largest, load(scores + v * kLanes));
  const Vec top = broadcast(fold_max(largest));
  Vec total = broadcast(0.0f);
  for_vectors(vectors, scores, [&](std::int64_t, Vec& x) {
    x = exp(x - top);
    total = total + x;
  });
  const float negatives = fold_sum(total), highest = common_value(top);
  const float sum = negatives + common_value(exp(broadcast(positive_score - highest)));
  const Vec each = broadcast(scale / sum);
  for_vectors(vectors, scores, [&](std::int64_t, Vec& x) { x = x * each; });
  return {log_from_one(sum) + (highest - positive_score), -scale * (negatives / sum)};
}

FRUGAL_LANES RowLoss row_loss(const LossSpec& spec, float positive_score, float scale, std::int64_t n,
                              std::int64_t vectors, float* scores) {
  if (spec.genre == LossGenre::kSoftmax) return softmax_loss(positive_score, scale, vectors, scores);
  if (spec.genre == LossGenre::kHinge)
    return row_loss(Hinge{broadcast(spec.margin)}, spec, positive_score, scale, n, vectors, scores);
  return row_loss(Softplus{}, spec, positive_score, scale, n, vectors, scores);
}

FRUGAL_LANES LossValue positive_loss(const LossSpec& spec, float score) {
  const LossVec value =
      spec.genre == LossGenre::kHinge ? Hinge{broadcast(spec.margin)}(broadcast(score)) : Softplus{}(broadcast(score));
  return {common_value(value.loss), common_value(value.derivative)};
}

}  // namespace frugal::FRUGAL_ISA
