// The kernels of losses from scores, run on a CPU, against their references.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "random_floats.h"
#include "step/cuda/loss_from_scores.h"

namespace frugal::emulated_loss_from_scores {
namespace {

using testing::Floats, testing::random_floats;

void expect_same_bits(const Floats& found, const Floats& expected) {
  ASSERT_EQ(found.size(), expected.size());
  EXPECT_EQ(std::memcmp(found.data(), expected.data(), found.size() * sizeof(float)), 0);
}

std::vector<LossSpec> losses() {
  LossSpec plain, hinge, pairwise, adversarial, softmax;
  hinge.genre = LossGenre::kHinge;
  pairwise.pairwise = true;
  adversarial.adversarial = true, adversarial.temperature = 0.7f;
  softmax.genre = LossGenre::kSoftmax;
  return {plain, hinge, pairwise, adversarial, softmax};
}

struct Losses {
  Floats scores, slope, losses;
  std::vector<double> sums;
};

TEST(EmulatedLossFromScores, HaveTheHostsBits) {
  std::mt19937 random(1);
  for (const LossSpec& loss : losses())
    for (const std::int64_t columns : {1, 16, 77})
      for (const std::int64_t own : {std::int64_t{0}, std::int64_t{1}, columns}) {
        const std::int64_t positives = 3 * std::max<std::int64_t>(own, 1);
        const Floats positive = random_floats(positives, random), scores = random_floats(positives * columns, random);
        Floats weight = random_floats(positives, random);
        for (float& each : weight) each = std::fabs(each);
        const auto compute_loss = [&](auto compute, auto add) {
          Losses lost{scores, Floats(positives, NAN), Floats(2 * positives, NAN), std::vector<double>(4)};
          compute(loss, ScoredPositives{positives, columns, own, positive.data(), lost.scores.data(),
                                        own == 1 ? nullptr : weight.data(), lost.slope.data(), lost.losses.data()});
          add(loss, lost.losses, scores, lost.sums.data());
          return lost;
        };
        const Losses found = compute_loss([](const auto&... x) { cuda::loss_from_scores(x..., {}); },
                                          [](const auto&... x) { cuda::add_losses(x..., {}); });
        const Losses expected =
            compute_loss([](const auto&... x) { cpu::loss_from_scores(x...); },
                         [](const auto&... x) { cpu::add_losses(x...); });
        expect_same_bits(found.scores, expected.scores);
        expect_same_bits(found.slope, expected.slope);
        expect_same_bits(found.losses, expected.losses);
        for (int i = 0; i < 4; ++i) EXPECT_NEAR(found.sums[i], expected.sums[i], 1e-12 * std::fabs(expected.sums[i]));
      }
}

TEST(EmulatedLossFromScores, ArePenalizedAsOnTheHost) {
  std::mt19937 random(2);
  constexpr std::int64_t kRows = 5, kSlots = 11;
  const std::vector<std::int32_t> reads{0, 2, 2, 3, 3, 7}, slot{4, 0, 0, 3, 1, 4, 4, 2, 0, 1, 3};
  for (const float norm : {1.0f, 2.0f, 3.0f, 2.5f})
    for (const std::int64_t dim : {1, 16, 50}) {
      LossSpec loss;
      loss.regularization_coefficient = 0.3f, loss.regularization_norm = norm;
      const std::int64_t stride = dim + 3;
      const Floats rows = random_floats(kRows * stride, random);
      const Floats first = random_floats(kRows * dim, random), second = random_floats(kSlots * dim, random);
      const auto penalize = [&](auto compute) {
        std::vector<Floats> found{first, second, Floats(kRows, NAN), Floats(kSlots, NAN),
                                  Floats(kRows, NAN), Floats(kSlots, NAN)};
        const PenalizedRows tables[] = {
            {rows.data(), stride, dim, kRows, nullptr, reads.data(), found[0].data(), found[2].data(), found[4].data()},
            {rows.data(), stride, dim, kSlots, slot.data(), nullptr, found[1].data(), found[3].data(),
             found[5].data()}};
        compute(loss, tables);
        return found;
      };
      const auto found = penalize([](const auto&... x) { cuda::penalize(x..., {}); });
      const auto expected = penalize([](const auto&... x) { cpu::penalize(x...); });
      for (std::size_t i = 0; i < found.size(); ++i)
        for (std::size_t k = 0; k < found[i].size(); ++k)
          EXPECT_NEAR(found[i][k], expected[i][k], 1e-5f * std::max(1.0f, std::fabs(expected[i][k])));
      EXPECT_EQ(found[2][1], 0.0f);
      EXPECT_EQ(found[0][1 * dim], first[1 * dim]);
      EXPECT_NE(found[0][0], first[0]);
    }
}

}  // namespace
}  // namespace frugal::emulated_loss_from_scores
