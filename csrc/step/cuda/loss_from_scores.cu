#include "step/cuda/loss_from_scores.h"

#include <string>

#include "base/device/cuda_check.h"
#include "models/similarity/score_row.h"
#include "models/similarity/scores.h"
#include "step/cuda/known_loss.cuh"
#include "step/cuda/loss_sums.cuh"
#include "step/regularization.h"

namespace frugal::cuda {
namespace {

constexpr int kThreads = kRowTeams * kLanes;  // of a block, whose half-warps share a row of scores
constexpr int kPenaltyThreads = 128, kPenaltyTeams = kPenaltyThreads / kLanes;
constexpr int kPenalizedAtOnce = 8;  // numbers that a lane asks for before it writes one
constexpr int kSumThreads = 512;

// A block takes a positive with its negatives.
template <KnownLoss kKnown>
__global__ void __launch_bounds__(kThreads) loss_from_scores_kernel(LossSpec any, ScoredPositives s,
                                                                    std::int64_t vectors) {
  extern __shared__ __align__(16) float shared[];
  const LossSpec loss = with_known<kKnown>(any);
  const std::int64_t edge = blockIdx.x, stride = vectors * kLanes;
  float *const scores = s.scores + edge * s.columns, *const losses = s.losses + 2 * edge;
  const float importance = s.weight ? s.weight[edge] : 1.0f;
#pragma unroll 4
  for (std::int64_t j = threadIdx.x; j < stride; j += kThreads) shared[j] = j < s.columns ? scores[j] : 0.0f;
  QueryRow row{};
  row.values = shared;
  row.slope = shared + stride;
  row.terms = row.slope + stride;
  row.negatives = s.columns;
  row.vectors = vectors;
  row.own = s.own > 0 ? edge % s.own : -1;
  row.positive_score = s.positive[edge];
  row.scale = importance * (loss.joint() ? 1.0f : 0.5f) / static_cast<float>(s.positives);
  __syncthreads();
  const QueryLoss negatives = score_row<DotScores>(loss, row);
  float positive_loss_of_edge = 0.0f, slope = negatives.positive_derivative;
  if (!loss.joint()) {
    const LossValue positive = positive_loss(loss, row.positive_score);
    positive_loss_of_edge = importance * positive.loss;
    slope = row.scale * positive.derivative;
  }
  __syncthreads();
#pragma unroll 4
  for (std::int64_t j = threadIdx.x; j < s.columns; j += kThreads) scores[j] = shared[j];
  if (threadIdx.x != 0) return;
  losses[0] = positive_loss_of_edge;
  losses[1] = importance * negatives.loss;
  s.positive_slope[edge] = slope;
}

struct Penalized {
  PenalizedRows table[kMostPenalized];
  int count;
};

// A half-warp takes a row.
template <bool kCubic>
__global__ void __launch_bounds__(kPenaltyThreads)
    penalize_kernel(LossSpec loss, const __grid_constant__ Penalized all) {
  std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kPenaltyTeams + threadIdx.x / kLanes;
  int t = 0;
  while (t < all.count && i >= all.table[t].count) i -= all.table[t++].count;
  if (t == all.count) return;
  const PenalizedRows& table = all.table[t];
  const float norm = kCubic ? 3.0f : loss.regularization_norm;
  const Vec times = broadcast(loss.regularization_coefficient * norm);
  Vec sum = broadcast(0.0f), square = broadcast(0.0f);
  if (table.is_read(i)) {
    const float* const row = table.row(i);
    float* const gradient = table.gradients + i * table.dim;
    for (std::int64_t first = lane(); first < table.dim; first += kPenalizedAtOnce * kLanes) {
      float value[kPenalizedAtOnce], before[kPenalizedAtOnce];
#pragma unroll
      for (int k = 0; k < kPenalizedAtOnce; ++k) {
        const std::int64_t p = first + k * kLanes;
        value[k] = p < table.dim ? row[p] : 0.0f, before[k] = p < table.dim ? gradient[p] : 0.0f;
      }
#pragma unroll
      for (int k = 0; k < kPenalizedAtOnce; ++k) {
        const std::int64_t p = first + k * kLanes;
        if (p >= table.dim) break;
        const Vec x{value[k]}, rising = penalty_slope(norm, x);
        const Vec whole = Vec{before[k]} + times * rising;
        gradient[p] = whole.x;
        sum = sum + rising * x;
        square = square + whole * whole;
      }
    }
  }
  const float amount = fold_sum(sum), squares = fold_sum(square);
  if (lane() != 0) return;
  table.amounts[i] = amount;
  table.squares[i] = squares / static_cast<float>(table.dim);
}

// A block adds up all of it, in a fixed order.
__global__ void __launch_bounds__(kSumThreads)
    add_kernel(LossSpec loss, const float* losses, std::int64_t positives, const float* amounts, std::int64_t rows,
               double* sums) {
  double positive = 0.0, negative = 0.0, penalty = 0.0;
#pragma unroll 4
  for (std::int64_t i = threadIdx.x; i < positives; i += kSumThreads) {
    positive += losses[2 * i];
    negative += losses[2 * i + 1];
  }
#pragma unroll 16
  for (std::int64_t i = threadIdx.x; i < rows; i += kSumThreads) penalty += amounts[i];
  add_to_sums<kSumThreads>(loss, positives, positive, negative, penalty, sums);
}

cudaStream_t stream_of(const Launch& launch) { return reinterpret_cast<cudaStream_t>(launch.stream); }

}  // namespace

void loss_from_scores(const LossSpec& loss, const ScoredPositives& s, const Launch& launch) {
  if (s.positives == 0) return;
  const std::int64_t vectors = (s.columns + kLanes - 1) / kLanes;
  const auto bytes = static_cast<int>(4 * vectors * kLanes * sizeof(float));
  constexpr int kFreeOfAsking = 48 << 10;
  const auto blocks = static_cast<unsigned>(s.positives);
  with_known_loss(loss, [&](auto known) {
    const auto kernel = loss_from_scores_kernel<known()>;
    if (bytes > kFreeOfAsking)
      cuda_check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
                 "reserving shared memory for losses", "make --neg_sample_size smaller");
    kernel<<<blocks, kThreads, bytes, stream_of(launch)>>>(loss, s, vectors);
  });
  cuda_check(cudaGetLastError(), "launching the losses of " + std::to_string(s.positives) + " positives");
}

void penalize(const LossSpec& loss, std::span<const PenalizedRows> tables, const Launch& launch) {
  Penalized all{};
  std::int64_t rows = 0;
  for (const PenalizedRows& table : tables) {
    all.table[all.count++] = table;
    rows += table.count;
  }
  if (rows == 0) return;
  const auto blocks = static_cast<unsigned>((rows + kPenaltyTeams - 1) / kPenaltyTeams);
  const auto kernel = loss.regularization_norm == 3.0f ? penalize_kernel<true> : penalize_kernel<false>;
  kernel<<<blocks, kPenaltyThreads, 0, stream_of(launch)>>>(loss, all);
  cuda_check(cudaGetLastError(), "launching the penalties of " + std::to_string(rows) + " rows");
}

void add_losses(const LossSpec& loss, std::span<const float> losses, std::span<const float> amounts, double* sums,
                const Launch& launch) {
  const auto positives = static_cast<std::int64_t>(losses.size() / 2), rows = static_cast<std::int64_t>(amounts.size());
  add_kernel<<<1, kSumThreads, 0, stream_of(launch)>>>(loss, losses.data(), positives, amounts.data(), rows, sums);
  cuda_check(cudaGetLastError(), "launching the sums of losses");
}

}  // namespace frugal::cuda
