// The end of a step's gradients: sums over a row's occurrences among the positives, mean squares of all gradients,
// which the update needs first, and sums of losses.
#pragma once

#include "rows/cuda/device_warp.cuh"
#include "step/cuda/device_penalty.cuh"
#include "step/cuda/device_step.cuh"
#include "step/cuda/loss_sums.cuh"
#include "step/cuda/shared_copy.cuh"

namespace frugal::cuda {

constexpr int kWarp = 32;
// A thread has four columns of a row, so that short rows take fewer threads: a team, which is a whole block or, for the
// shortest rows, one of its warps.
constexpr int kSumThreads = 128;
__host__ __device__ constexpr int block_of_team(int team) { return team == kWarp ? kSumThreads : team; }
// Calls body.operator()<kTeam>().
template <typename Body>
inline auto with_team(const Step& s, Body body) {
  if (s.model.entity_dim <= 4 * kWarp) return body.template operator()<kWarp>();
  if (s.model.entity_dim <= 8 * kWarp) return body.template operator()<2 * kWarp>();
  return body.template operator()<kSumThreads>();
}
template <int kTeam>
__device__ inline void sync_team() {
  if constexpr (kTeam == kWarp)
    __syncwarp();
  else
    __syncthreads();
}

// What hides the waiting for loads is more blocks at a time; where rows are short, more loads of each as well.
__host__ __device__ constexpr bool is_long(int team) { return team == kSumThreads; }
__host__ __device__ constexpr int blocks_at_once(int team) {  // of a multiprocessor
  return is_long(team) ? 9 : 768 / block_of_team(team);
}

// By one block: sums in a fixed order, added to the running ones.
template <int kTeam>
__device__ inline void add_losses(const Step& s) {
  constexpr int kThreads = block_of_team(kTeam);
  constexpr int kTogether = is_long(kTeam) ? 8 : 16;  // loads under way: one block has to wait for all of them
  double positive = 0.0, negative = 0.0, penalty = 0.0;
#pragma unroll kTogether
  for (std::int64_t i = threadIdx.x; i < s.batch.positives; i += kThreads) {
    positive += s.query_states[i].positive_loss;
    negative += s.query_states[i].negative_loss;
  }
  if (s.regularized) {
#pragma unroll kTogether
    for (std::int64_t i = threadIdx.x; i < s.batch.counts[0]; i += kThreads) penalty += s.entity_regularization[i];
#pragma unroll kTogether
    for (std::int64_t i = threadIdx.x; i < s.batch.counts[1]; i += kThreads) penalty += s.relation_regularization[i];
  }
  add_to_sums<kThreads>(s.loss, s.batch.positives, positive, negative, penalty, s.out.losses);
}

// The mean square of a row in shared memory, to the first lane; by a warp.
__device__ inline float mean_square(const float* row, std::int64_t dim, int power) {
  const float* const gradient[1] = {row};
  float mean[1];
  warp_mean_squares<DeviceWarp, 1>(gradient, dim, power, mean);
  return mean[0];
}

// Stores the mean squares of rows that follow each other, by a block: each warp's first lane has one. Those of four
// rows cross a link together, which carries a word no faster than a line. to: of the first row; rows: how many there
// are from that one on.
template <int kWarps>
__device__ inline void give_squares(const Step& s, float* to, std::int64_t rows, float of_warp) {
  constexpr int kFour = 4;
  __shared__ float4 words[(kWarps + kFour - 1) / kFour];
  float* const squares = reinterpret_cast<float*>(words);
  if (DeviceWarp::lane() == 0) squares[threadIdx.x / kWarp] = of_warp;
  __syncthreads();
  const bool together = kWarps == kFour && rows >= kFour && reinterpret_cast<std::uintptr_t>(to) % sizeof(float4) == 0;
  const int each = together ? kFour : 1, steps = kWarps / each, thread = static_cast<int>(threadIdx.x);
  const int first = thread % steps * each, mirror = thread / steps - 1;
  if (mirror >= s.square_mirrors.count || first >= rows) return;
  float* const at = s.square_place(mirror, to + first);
  if (together)
    *reinterpret_cast<float4*>(at) = words[0];
  else
    *at = squares[first];
}

// Occurrences that are loaded before they are added.
constexpr int kFewAhead = 4;
__host__ __device__ constexpr int many_ahead(int team) { return is_long(team) ? kFewAhead : 8; }

// Adds kAhead occurrences of a row, or those below `there`, to the sum, which begins with the first one of all. Many
// are loaded without a condition each, the last one again and again: loads with conditions would wait for each other.
template <int kAhead>
__device__ inline void add_occurrences(const float* column, std::int64_t stride, const std::int32_t* places, int there,
                                       bool begins, float4& sum) {
  float4 x[kAhead];
#pragma unroll
  for (int k = 0; k < kAhead; ++k)
    if (kAhead > kFewAhead || k < there)
      x[k] = *reinterpret_cast<const float4*>(column + places[k < there ? k : there - 1] * stride);
#pragma unroll
  for (int k = 0; k < kAhead; ++k) {
    if (k == 0 && begins)
      sum = x[k];
    else if (k < there)
      sum.x += x[k].x, sum.y += x[k].y, sum.z += x[k].z, sum.w += x[k].w;
  }
}

// By a team, four columns of a distinct entity per thread: its `count` occurrences among the positives added up, in
// order, and regularization. Returns the mean square to the team's first thread.
template <int kTeam>
__device__ inline float sum_positives(const Step& s, std::int64_t row, std::int32_t begin, int count, float* total) {
  __shared__ std::int32_t looked_up[block_of_team(kTeam)];  // places of occurrences, by team
  const int thread = static_cast<int>(threadIdx.x) % kTeam;
  std::int32_t* const places = looked_up + (threadIdx.x - thread);
  const std::int64_t dim = s.model.entity_dim;
  const float norm = s.loss.regularization_norm, factor = s.loss.regularization_coefficient * norm;
  float* out = s.out.positive.data + row * s.out.positive.stride;
  for (std::int64_t start = 0; start < dim; start += 4 * kTeam) {
    const std::int64_t column = start + 4 * thread;
    float own[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) own[j] = s.regularized && column + j < dim ? s.entity(row)[column + j] : 0.0f;
    float4 sum;
    for (int first = 0; first < count; first += kTeam) {
      const int there = count - first < kTeam ? count - first : kTeam;
      if (start == 0 || count > kTeam) {
        sync_team<kTeam>();  // the last ones have been used
        if (thread < there) places[thread] = s.batch.positive_occurrence[begin + first + thread];
        sync_team<kTeam>();
      }
      const float* const gradients = s.edge_gradient + column;
      int i = 0;
      constexpr int kManyAhead = many_ahead(kTeam);
      for (; kManyAhead > kFewAhead && column < dim && there - i > kFewAhead; i += kManyAhead)
        add_occurrences<kManyAhead>(gradients, s.edge_stride, places + i, there - i, first + i == 0, sum);
      for (; column < dim && i < there; i += kFewAhead)
        add_occurrences<kFewAhead>(gradients, s.edge_stride, places + i, there - i, first + i == 0, sum);
    }
    if (column >= dim) continue;
    float values[4] = {sum.x, sum.y, sum.z, sum.w};
    if (s.regularized)
#pragma unroll
      for (int j = 0; j < 4; ++j) values[j] += (broadcast(factor) * slope_of_penalty(norm, Vec{own[j]})).x;
    *reinterpret_cast<float4*>(total + column) = {values[0], values[1], values[2], values[3]};
    if (s.aligned_out) {
      *reinterpret_cast<float4*>(out + column) = {values[0], values[1], values[2], values[3]};
      continue;
    }
#pragma unroll
    for (int j = 0; j < 4; ++j)
      if (column + j < dim) out[column + j] = values[j];
  }
  sync_team<kTeam>();
  return thread < kWarp ? mean_square(total, dim, s.entity_power) : 0.0f;
}

inline std::int64_t gradient_rows(const Step& s) {
  return s.chunks * s.batch.negatives_per_chunk + s.batch.positives;
}
// Blocks of teams of entities, behind the one of losses.
__host__ __device__ inline std::int64_t entity_blocks(const Step& s, int team) {
  const int teams = block_of_team(team) / team;
  return (s.batch.most_entities + teams - 1) / teams;
}
inline std::int64_t sum_blocks(const Step& s, int team) {
  return 1 + entity_blocks(s, team) + pieces(gradient_rows(s), block_of_team(team) / kWarp);
}
// Floats of a row in shared memory: a block has one for each warp.
__host__ __device__ inline std::int64_t sum_stride(const Step& s) {
  const std::int64_t most = s.model.entity_dim > s.model.relation_dim ? s.model.entity_dim : s.model.relation_dim;
  return (most + 3) / 4 * 4;
}
inline std::int64_t sum_floats(const Step& s, int team) { return block_of_team(team) / kWarp * sum_stride(s); }

// One block adds up losses, one team per distinct entity its positives; then a warp takes the mean square of the
// gradient of a negative or a relation.
template <int kTeam>
__global__ void __launch_bounds__(block_of_team(kTeam), blocks_at_once(kTeam)) sums_kernel(Step s) {
  extern __shared__ __align__(16) float shared[];
  constexpr int kThreads = block_of_team(kTeam), kWarps = kThreads / kWarp, kTeams = kThreads / kTeam;
  std::int64_t block = static_cast<std::int64_t>(blockIdx.x) - 1;
  if (block < 0) return add_losses<kTeam>(s);
  const bool mirrored = s.square_mirrors.count > 0;
  if (block < entity_blocks(s, kTeam)) {
    const std::int64_t team = threadIdx.x / kTeam, entity = block * kTeams + team;
    const std::int64_t left = s.batch.most_entities - entity;
    const std::int32_t begin = left > 0 ? s.batch.positive_offset[entity] : 0;
    const int count = left > 0 ? s.batch.positive_offset[entity + 1] - begin : 0;  // 0: no positive, or padding
    float square = 0.0f;
    if (count > 0) square = sum_positives<kTeam>(s, entity, begin, count, shared + team * sum_stride(s));
    float* const to = s.out.positive_square + entity;
    if (kTeam == kWarp && mirrored) return give_squares<kWarps>(s, to - team, left + team, square);
    if (count > 0 && threadIdx.x % kTeam == 0) s.give_square(to, square);
    return;
  }
  block -= entity_blocks(s, kTeam);
  const std::int64_t negatives = s.chunks * s.batch.negatives_per_chunk, warp = threadIdx.x / kWarp;
  const std::int64_t number = block * kWarps + warp, left = negatives + s.batch.positives - number;
  const bool is_negative = number < negatives;
  const std::int64_t row = is_negative ? number : number - negatives;
  float square = 0.0f;
  if (left > 0) {
    const DeviceRows& rows = is_negative ? s.out.negative : s.out.relation;
    const std::int64_t dim = is_negative ? s.model.entity_dim : s.model.relation_dim;
    float* const copy = shared + warp * sum_stride(s);
    start_copy<kWarp>(copy, rows.data + row * rows.stride, dim);
    finish_copies(DeviceWarp::kAll);
    square = mean_square(copy, dim, is_negative ? s.entity_power : s.relation_power);
  }
  if (mirrored)  // the places of relations follow those of negatives
    return give_squares<kWarps>(s, s.out.negative_square + number - warp, left + warp, square);
  if (left > 0 && DeviceWarp::lane() == 0)
    (is_negative ? s.out.negative_square : s.out.relation_square)[row] = square;
}

}  // namespace frugal::cuda
