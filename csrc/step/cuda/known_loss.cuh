// Losses that have kernels of their own. One kernel that chose among all of them while it ran had twice the code, and
// took half as long again.
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/linalg/simd.h"
#include "models/loss.h"

namespace frugal::cuda {

enum class KnownLoss { kSoftplus, kAdversarialSoftplus, kAny };

// The same loss, of which the compiler knows what kKnown says.
template <KnownLoss kKnown>
__device__ LossSpec with_known(LossSpec loss) {
  if (kKnown == KnownLoss::kAny) return loss;
  loss.genre = LossGenre::kSoftplus;
  loss.pairwise = false;
  loss.adversarial = kKnown == KnownLoss::kAdversarialSoftplus;
  return loss;
}

// Calls body with what is known of a loss, as a std::integral_constant.
template <typename Body>
void with_known_loss(const LossSpec& loss, Body body) {
  if (loss.genre != LossGenre::kSoftplus || loss.pairwise)
    body(std::integral_constant<KnownLoss, KnownLoss::kAny>());
  else if (loss.adversarial)
    body(std::integral_constant<KnownLoss, KnownLoss::kAdversarialSoftplus>());
  else
    body(std::integral_constant<KnownLoss, KnownLoss::kSoftplus>());
}

// Calls body with the vectors of a row of scores: those of 256 negatives, DGL-KE's default, or 0 for any number.
template <KnownLoss kKnown, typename Body>
void with_known_vectors(std::int64_t vectors, Body body) {
  constexpr int kOfDefault = 256 / kLanes;
  if constexpr (kKnown != KnownLoss::kAny)
    if (vectors == kOfDefault) return body(std::integral_constant<int, kOfDefault>());
  body(std::integral_constant<int, 0>());
}

}  // namespace frugal::cuda
