// The loss of a step, as data.
//
// With s+ the score of a positive, s- those of its N negatives, w its edge importance (1 without), B positives:
//   plain:     1/2 (mean_i w_i l(s+_i) + mean_i w_i sum_j v_ij l(-s-_ij)), v_ij = 1/N, or softmax_j(temperature s-_ij),
//              which counts as a constant (adversarial)
//   pairwise:  mean_ij w_i l(s+_i - s-_ij)
//   l(x) = softplus(-x) (Logsigmoid, Logistic and BCE are all this function) or max(0, margin - x) (Hinge)
//   softmax:   mean_i w_i (log(e^s+_i + sum_j e^s-_ij) - s+_i), the cross-entropy of the positive among its negatives;
//              with the chunk's own side among them, a positive is not compared with itself. LibKGE's "kl" for sampled
//              negatives (kge/util/loss.py), of which a step computes the side that it corrupts.
// Regularization adds coefficient * sum |x|^norm over all rows that were read: each distinct entity among the positives
// once, each negative and each edge's relation once per occurrence. Source: DGL-KE, dglke/models/pytorch/loss.py and
// general_models.py.
#pragma once

#include "base/device/everywhere.h"

namespace frugal {

enum class LossGenre { kSoftplus, kHinge, kSoftmax };

// The names of --loss_genre. BCE with labels 1 and 0 is the same function as the two before it, and here cannot
// overflow.
struct LossName {
  const char* name;
  LossGenre genre;
};
inline constexpr LossName kLossNames[] = {{"Logsigmoid", LossGenre::kSoftplus},
                                          {"Logistic", LossGenre::kSoftplus},
                                          {"BCE", LossGenre::kSoftplus},
                                          {"Hinge", LossGenre::kHinge},
                                          {"Softmax", LossGenre::kSoftmax}};

struct LossSpec {
  LossGenre genre = LossGenre::kSoftplus;
  float margin = 1.0f;  // of Hinge
  bool pairwise = false;
  bool adversarial = false;
  float temperature = 1.0f;
  float regularization_coefficient = 0.0f;
  float regularization_norm = 3.0f;

  // Whether a positive and its negatives have one loss between them, rather than one each.
  FRUGAL_EVERYWHERE bool joint() const { return pairwise || genre == LossGenre::kSoftmax; }
  bool regularized() const { return regularization_coefficient > 0.0f && regularization_norm > 0.0f; }
};

// A loss l(x) and dl/dx.
struct LossValue {
  float loss, derivative;
};

}  // namespace frugal
