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
constexpr int kSumsAhead = 4;  // occurrences that are loaded before they are added
// A thread has four columns, so that short rows take blocks of half as many threads.
constexpr int kSumThreads = 128, kShortSumThreads = 64;
inline int sum_threads(const Step& s) {
  return s.model.entity_dim <= 4 * kShortSumThreads ? kShortSumThreads : kSumThreads;
}

// By one block: sums in a fixed order, added to the running ones.
template <int kThreads>
__device__ inline void add_losses(const Step& s) {
  double positive = 0.0, negative = 0.0, penalty = 0.0;
#pragma unroll 8
  for (std::int64_t i = threadIdx.x; i < s.batch.positives; i += kThreads) {
    positive += s.query_states[i].positive_loss;
    negative += s.query_states[i].negative_loss;
  }
  if (s.regularized) {
#pragma unroll 8
    for (std::int64_t i = threadIdx.x; i < s.batch.counts[0]; i += kThreads) penalty += s.entity_regularization[i];
#pragma unroll 8
    for (std::int64_t i = threadIdx.x; i < s.batch.counts[1]; i += kThreads) penalty += s.relation_regularization[i];
  }
  add_to_sums<kThreads>(s.loss, s.batch.positives, positive, negative, penalty, s.out.losses);
}

// Stores the mean square of a row in shared memory; by a warp.
__device__ inline void store_mean_square(const Step& s, const float* row, std::int64_t dim, int power, float* to) {
  const float* const gradient[1] = {row};
  float mean[1];
  warp_mean_squares<DeviceWarp, 1>(gradient, dim, power, mean);
  if (DeviceWarp::lane() == 0) s.give_square(to, mean[0]);
}

// By a block, four columns of a distinct entity per thread: its occurrences among the positives added up, in order, and
// regularization.
template <int kThreads>
__device__ inline void sum_positives(const Step& s, std::int64_t row, float* total) {
  __shared__ std::int32_t places[kThreads];  // of occurrences, looked up together
  const std::int32_t begin = s.batch.positive_offset[row];
  const int count = s.batch.positive_offset[row + 1] - begin;
  if (count == 0) return;  // no positive, or a row that only pads
  const std::int64_t dim = s.model.entity_dim;
  const float norm = s.loss.regularization_norm, factor = s.loss.regularization_coefficient * norm;
  float* out = s.out.positive.data + row * s.out.positive.stride;
  for (std::int64_t start = 0; start < dim; start += 4 * kThreads) {
    const std::int64_t column = start + 4 * threadIdx.x;
    float own[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) own[j] = s.regularized && column + j < dim ? s.entity(row)[column + j] : 0.0f;
    float4 sum;
    for (int first = 0; first < count; first += kThreads) {
      const int there = count - first < kThreads ? count - first : kThreads;
      if (start == 0 || count > kThreads) {
        __syncthreads();  // the last ones have been used
        if (threadIdx.x < there) places[threadIdx.x] = s.batch.positive_occurrence[begin + first + threadIdx.x];
        __syncthreads();
      }
      for (int i = 0; column < dim && i < there; i += kSumsAhead) {
        float4 x[kSumsAhead];
#pragma unroll
        for (int k = 0; k < kSumsAhead; ++k)
          if (i + k < there)
            x[k] = *reinterpret_cast<const float4*>(s.edge_gradient + places[i + k] * s.edge_stride + column);
#pragma unroll
        for (int k = 0; k < kSumsAhead; ++k) {
          if (first + i + k == 0)
            sum = x[k];
          else if (i + k < there)
            sum.x += x[k].x, sum.y += x[k].y, sum.z += x[k].z, sum.w += x[k].w;
        }
      }
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
  __syncthreads();
  if (threadIdx.x < kWarp) store_mean_square(s, total, dim, s.entity_power, s.out.positive_square + row);
}

inline std::int64_t gradient_rows(const Step& s) {
  return s.chunks * s.batch.negatives_per_chunk + s.batch.positives;
}
inline std::int64_t sum_blocks(const Step& s) {
  return 1 + s.batch.most_entities + pieces(gradient_rows(s), sum_threads(s) / kWarp);
}
// Floats of a row in shared memory: a block has one for each warp.
__host__ __device__ inline std::int64_t sum_stride(const Step& s) {
  const std::int64_t most = s.model.entity_dim > s.model.relation_dim ? s.model.entity_dim : s.model.relation_dim;
  return (most + 3) / 4 * 4;
}
inline std::int64_t sum_floats(const Step& s) { return sum_threads(s) / kWarp * sum_stride(s); }

// One block adds up losses, one per distinct entity its positives; then a warp takes the mean square of a negative's or
// a relation's gradient.
template <int kThreads>
__global__ void __launch_bounds__(kThreads) sums_kernel(Step s) {
  extern __shared__ __align__(16) float shared[];
  std::int64_t block = static_cast<std::int64_t>(blockIdx.x) - 1;
  if (block < 0) return add_losses<kThreads>(s);
  if (block < s.batch.most_entities) return sum_positives<kThreads>(s, block, shared);
  block -= s.batch.most_entities;
  const std::int64_t negatives = s.chunks * s.batch.negatives_per_chunk;
  std::int64_t row = block * (kThreads / kWarp) + threadIdx.x / kWarp;
  if (row >= negatives + s.batch.positives) return;
  const bool is_negative = row < negatives;
  if (!is_negative) row -= negatives;
  const DeviceRows& rows = is_negative ? s.out.negative : s.out.relation;
  const std::int64_t dim = is_negative ? s.model.entity_dim : s.model.relation_dim;
  float* copy = shared + threadIdx.x / kWarp * sum_stride(s);
  start_copy<kWarp>(copy, rows.data + row * rows.stride, dim);
  finish_copies(DeviceWarp::kAll);
  store_mean_square(s, copy, dim, is_negative ? s.entity_power : s.relation_power,
                    (is_negative ? s.out.negative_square : s.out.relation_square) + row);
}

}  // namespace frugal::cuda
