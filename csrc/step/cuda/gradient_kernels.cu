#include <algorithm>
#include <stdexcept>
#include <string>

#include "device/cuda_check.h"
#include "models/complex.h"
#include "models/distmult.h"
#include "models/rotate.h"
#include "models/similarity/score_row.h"
#include "models/simple.h"
#include "models/transe.h"
#include "step/cuda/device_step.cuh"
#include "step/cuda/pair_passes.cuh"
#include "step/regularization.h"

namespace frugal::cuda {
namespace {

constexpr int kThreads = 64, kTeams = kThreads / kLanes;  // half-warps of a block, a row each
constexpr int kSumThreads = 256, kSumColumns = 128;       // sums of occurrences: a warp for so many columns of a row
constexpr int kAhead = 8;                                 // occurrences that are loaded before they are added

// Copies n floats to shared memory, by a half-warp: all of them are under way before one is waited for.
__device__ void start_copy(float* to, const float* from, std::int64_t n) {
#pragma unroll 4
  for (std::int64_t i = lane(); i < n; i += kLanes) __pipeline_memcpy_async(to + i, from + i, sizeof(float));
}
__device__ void finish_copies() {
  __pipeline_commit();
  __pipeline_wait_prior(0);
  meet_lanes();
}

// Rows of one edge in shared memory, where loops over them wait for nothing.
struct EdgeRows {
  float *head, *tail, *query, *relation, *relation_gradient;

  static __host__ __device__ std::int64_t floats(const Step& s) { return 3 * s.leaf_stride + 2 * relation_stride(s); }
  static __host__ __device__ std::int64_t relation_stride(const Step& s) {
    return (s.model.relation_dim + kLanes - 1) / kLanes * kLanes;
  }

  __device__ EdgeRows(const Step& s, float* at)
      : head(at),
        tail(head + s.leaf_stride),
        query(tail + s.leaf_stride),
        relation(query + s.leaf_stride),
        relation_gradient(relation + relation_stride(s)) {}

  // By a half-warp; there once its copies are.
  __device__ void load(const Step& s, std::int64_t edge) const {
    start_copy(head, s.entity(s.batch.head_slot[edge]), s.model.entity_dim);
    start_copy(tail, s.entity(s.batch.tail_slot[edge]), s.model.entity_dim);
    start_copy(relation, s.relation(s.batch.relation_slot[edge]), s.model.relation_dim);
  }
  __device__ Triple triple() const { return {head, relation, tail}; }
};

__device__ float power_sum(float norm, const float* x, std::int64_t n) {
  return sum_row(n, [&](std::int64_t i, auto read) { return penalty_slope(norm, read(x + i)) * read(x + i); });
}

// A half-warp per row: queries and positive scores of edges; copies of negatives; the regularization of distinct rows.
template <typename Program>
__global__ void __launch_bounds__(kThreads) prepare_kernel(Step s) {
  extern __shared__ float shared[];
  constexpr bool kSquared = Program::kSimilarity == Similarity::kL2;
  std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * kTeams + threadIdx.x / kLanes;
  const std::int64_t dim = s.model.entity_dim;
  if (row < s.batch.positives) {
    const EdgeRows rows(s, shared + threadIdx.x / kLanes * EdgeRows::floats(s));
    rows.load(s, row);
    finish_copies();
    s.positive_score[row] = Program::raw(s.model, rows.triple(), s.batch.corrupt_head, rows.query);
    meet_lanes();
    if (kSquared) s.query_square[row] = dot(rows.query, rows.query, dim);
    for (std::int64_t p = lane(); p < dim; p += kLanes) s.query[row * s.stride + s.place(p)] = rows.query[p];
    return;
  }
  row -= s.batch.positives;
  if (row < s.chunks * s.columns) {
    const std::int64_t chunk = row / s.columns, column = row % s.columns;
    const float* from = s.entity(s.slot(chunk, column));
    float* to = s.negative + row * s.stride;
    float* copy = shared + threadIdx.x / kLanes * EdgeRows::floats(s);
    start_copy(copy, from, dim);
    finish_copies();
    for (std::int64_t p = lane(); p < dim; p += kLanes) to[s.place(p)] = copy[p];
    if (kSquared) s.negative_square[chunk * s.weight_stride + column] = dot(copy, copy, dim);
    return;
  }
  row -= s.chunks * s.columns;
  if (!s.regularized) return;
  const float norm = s.loss.regularization_norm;
  if (row < s.batch.most_entities) {
    if (row >= s.batch.counts[0]) return;
    const bool positive = s.batch.positive_offset[row + 1] > s.batch.positive_offset[row];
    const std::int32_t reads = positive + s.batch.negative_offset[row + 1] - s.batch.negative_offset[row];
    s.entity_regularization[row] = reads * power_sum(norm, s.entity(row), dim);
    return;
  }
  row -= s.batch.most_entities;
  if (row >= s.batch.most_relations || row >= s.batch.counts[1]) return;
  const std::int32_t edges = s.batch.relation_offset[row + 1] - s.batch.relation_offset[row];
  s.relation_regularization[row] = edges * power_sum(norm, s.relation(row), s.model.relation_dim);
}

// A half-warp per query: from its comparisons through scores and losses to the weights of its pairs.
template <typename Program, typename Scores, bool kSquared>
__global__ void __launch_bounds__(kThreads) loss_kernel(Step s) {
  extern __shared__ float shared[];
  const std::int64_t edge = static_cast<std::int64_t>(blockIdx.x) * kTeams + threadIdx.x / kLanes;
  if (edge >= s.batch.positives) return;
  const std::int64_t chunk = edge / s.batch.chunk_size;
  const float importance = s.batch.weight ? s.batch.weight[edge] : 1.0f;
  float* kept = s.weight + edge * s.weight_stride;
  QueryRow row;
  row.values = shared + threadIdx.x / kLanes * 3 * s.weight_stride;
  row.slope = row.values + s.weight_stride;
  float* square = row.slope + s.weight_stride;
  row.negatives = s.columns;
  row.vectors = s.weight_stride / kLanes;
  row.own = s.own > 0 ? edge % s.batch.chunk_size : -1;
  row.query_square = kSquared ? s.query_square[edge] : 0.0f;
  row.negative_square = square;
  row.gamma = s.model.gamma;
  row.positive_score = Program::finish(s.model, s.positive_score[edge], s.memo + edge);
  row.scale = importance * (s.loss.pairwise ? 1.0f : 0.5f) / static_cast<float>(s.batch.positives);
  start_copy(row.values, kept, s.weight_stride);
  if (kSquared) start_copy(square, s.negative_square + chunk * s.weight_stride, s.weight_stride);
  finish_copies();
  const QueryLoss negatives = score_row<Scores>(s.loss, row);
  s.negative_loss[edge] = importance * negatives.loss;
  if (s.loss.pairwise) {
    s.positive_loss[edge] = 0.0f;
    s.score_gradient[edge] = negatives.positive_derivative;
  } else {
    const LossValue positive = positive_loss(s.loss, row.positive_score);
    s.positive_loss[edge] = importance * positive.loss;
    s.score_gradient[edge] = row.scale * positive.derivative;
  }
  meet_lanes();
  if (kSquared)
    s.weight_sum[edge] = sum_row(s.columns, [&](std::int64_t j, auto read) { return read(row.values + j); });
  for (std::int64_t j = lane(); j < s.weight_stride; j += kLanes) kept[j] = row.values[j];
}

// By one block: sums in a fixed order, added to the running ones.
__device__ void add_losses(const Step& s) {
  __shared__ double partial[3][kThreads];
  double positive = 0.0, negative = 0.0, penalty = 0.0;
#pragma unroll 4
  for (std::int64_t i = threadIdx.x; i < s.batch.positives; i += kThreads) {
    positive += s.positive_loss[i];
    negative += s.negative_loss[i];
  }
  if (s.regularized) {
#pragma unroll 4
    for (std::int64_t i = threadIdx.x; i < s.batch.counts[0]; i += kThreads) penalty += s.entity_regularization[i];
#pragma unroll 4
    for (std::int64_t i = threadIdx.x; i < s.batch.counts[1]; i += kThreads) penalty += s.relation_regularization[i];
  }
  partial[0][threadIdx.x] = positive;
  partial[1][threadIdx.x] = negative;
  partial[2][threadIdx.x] = penalty;
  for (int half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half)
      for (auto& each : partial) each[threadIdx.x] += each[threadIdx.x + half];
  }
  if (threadIdx.x != 0) return;
  positive = partial[0][0] / static_cast<double>(s.batch.positives);
  negative = partial[1][0] / static_cast<double>(s.batch.positives);
  penalty = partial[2][0] * s.loss.regularization_coefficient;
  if (!s.loss.pairwise) {
    s.out.losses[0] += positive;
    s.out.losses[1] += negative;
  }
  s.out.losses[2] += penalty;
  s.out.losses[3] += (s.loss.pairwise ? negative : 0.5 * (positive + negative)) + penalty;
}

// A half-warp per edge: from the gradients of its query and its score to those of its leaves, of which the relation's
// is ready then. The first block adds up the losses.
template <typename Program>
__global__ void __launch_bounds__(kThreads) leaves_kernel(Step s) {
  extern __shared__ float shared[];
  if (blockIdx.x == 0) return add_losses(s);
  const std::int64_t edge = static_cast<std::int64_t>(blockIdx.x - 1) * kTeams + threadIdx.x / kLanes;
  if (edge >= s.batch.positives) return;
  const EdgeRows rows(s, shared + threadIdx.x / kLanes * EdgeRows::floats(s));
  rows.load(s, edge);
  for (std::int64_t first = 0, at = 0; first < s.model.entity_dim; first += s.part, at += s.part_stride)
    start_copy(rows.query + first, s.query_gradient + edge * s.stride + at, s.part);
  finish_copies();
  Program::backward(s.model, rows.triple(), s.batch.corrupt_head, s.memo[edge], s.score_gradient[edge], rows.query,
                    {s.head + edge * s.leaf_stride, rows.relation_gradient, s.tail + edge * s.leaf_stride});
  meet_lanes();
  float* relation = s.out.relation.data + edge * s.out.relation.stride;
  const float norm = s.loss.regularization_norm;
  const Vec factor = broadcast(s.loss.regularization_coefficient * norm);
  for_row(s.model.relation_dim, [&](std::int64_t i, auto read, auto write) {
    const Vec gradient = read(rows.relation_gradient + i);
    write(relation + i, s.regularized ? gradient + factor * penalty_slope(norm, read(rows.relation + i)) : gradient);
  });
}

// A warp per distinct entity and kSumColumns columns: its occurrences among the positives added up, in order, and
// regularization. A leaf on the side of the chunk's own negatives has its gradient as a negative added first.
__global__ void __launch_bounds__(kSumThreads) positives_kernel(Step s) {
  constexpr int kWarp = 32, kVectors = kSumColumns / kWarp;
  const std::int64_t dim = s.model.entity_dim, slices = (dim + kSumColumns - 1) / kSumColumns;
  const std::int64_t unit = static_cast<std::int64_t>(blockIdx.x) * (kSumThreads / kWarp) + threadIdx.x / kWarp;
  const std::int64_t row = unit / slices, first = unit % slices * kSumColumns + threadIdx.x % kWarp;
  if (row >= s.batch.most_entities || row >= s.batch.counts[0]) return;
  const std::int32_t begin = s.batch.positive_offset[row], end = s.batch.positive_offset[row + 1];
  if (begin == end) return;
  float sum[kVectors];
  const auto load = [&](std::int32_t o, float (&x)[kVectors]) {
    const std::int64_t at = s.batch.positive_occurrence[o];
    const bool is_head = at < s.batch.positives;
    const std::int64_t edge = is_head ? at : at - s.batch.positives;
    const float* leaf = (is_head ? s.head : s.tail) + edge * s.leaf_stride;
#pragma unroll
    for (int v = 0; v < kVectors; ++v) x[v] = first + v * kWarp < dim ? leaf[first + v * kWarp] : 0.0f;
    if (s.own == 0 || is_head != s.batch.corrupt_head) return;
    const float* own = s.own_gradient + edge * s.stride;
#pragma unroll
    for (int v = 0; v < kVectors; ++v)
      if (first + v * kWarp < dim) x[v] += own[s.place(first + v * kWarp)];
  };
  load(begin, sum);
  std::int32_t o = begin + 1;
  for (; o + kAhead <= end; o += kAhead) {
    float x[kAhead][kVectors];
#pragma unroll
    for (int k = 0; k < kAhead; ++k) load(o + k, x[k]);
#pragma unroll
    for (int k = 0; k < kAhead; ++k)
#pragma unroll
      for (int v = 0; v < kVectors; ++v) sum[v] += x[k][v];
  }
  for (; o < end; ++o) {
    float x[kVectors];
    load(o, x);
#pragma unroll
    for (int v = 0; v < kVectors; ++v) sum[v] += x[v];
  }
  const float norm = s.loss.regularization_norm, factor = s.loss.regularization_coefficient * norm;
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    const std::int64_t column = first + v * kWarp;
    if (column >= dim) break;
    if (s.regularized) sum[v] += (broadcast(factor) * penalty_slope(norm, Vec{s.entity(row)[column]})).x;
    s.out.positive.data[row * s.out.positive.stride + column] = sum[v];
  }
}

template <typename Kernel>
void launch(Kernel kernel, std::int64_t blocks, int threads, std::int64_t shared_floats, cudaStream_t stream,
            const Step& s, const char* name) {
  const auto bytes = static_cast<int>(sizeof(float) * shared_floats);
  constexpr int kFreeOfAsking = 48 << 10;
  if (bytes > kFreeOfAsking)
    cuda_check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
               std::string("reserving shared memory for ") + name, "make --hidden_dim or --neg_sample_size smaller");
  kernel<<<static_cast<unsigned>(blocks), threads, bytes, stream>>>(s);
  cuda_check(cudaGetLastError(), std::string("launching ") + name);
}

template <typename Program, typename P, typename Scores>
void run(const Step& s, const DeviceExchange* exchange, cudaStream_t stream) {
  Step part = s;  // what prepares and compares: by itself, or this rank's columns
  if (exchange) lay_out_sums(part, exchange->own);
  const std::int64_t positives = s.batch.positives;
  const std::int64_t penalties = s.regularized ? s.batch.most_entities + s.batch.most_relations : 0;
  const std::int64_t edge_floats = kTeams * EdgeRows::floats(s);
  launch(prepare_kernel<Program>, pieces(positives + s.chunks * s.columns + penalties, kTeams), kThreads, edge_floats,
         stream, part, "queries");
  launch(compare_kernel<P>, compare_blocks<P>(s), CompareTile<P>::kThreads, 0, stream, part, "comparisons");
  if (exchange) exchange_sum(*exchange, 0, sum_floats(s), 1.0f, s.weight, reinterpret_cast<std::uintptr_t>(stream));
  launch(loss_kernel<Program, Scores, P::kSquared>, pieces(positives, kTeams), kThreads, kTeams * 3 * s.weight_stride,
         stream, s, "losses");
  launch(pull_kernel<P>, pull_blocks<P>(s), PullTile<P, true>::kThreads, 0, stream, s, "gradients of pairs");
  launch(leaves_kernel<Program>, 1 + pieces(positives, kTeams), kThreads, edge_floats, stream, s,
         "gradients of positives");
  launch(positives_kernel,
         pieces(s.batch.most_entities * pieces(s.model.entity_dim, kSumColumns), kSumThreads / 32), kSumThreads, 0,
         stream, s, "sums of gradients");
}

int parts_of(const ModelSpec& model) { return model.name == "RotatE" ? 2 : 1; }

}  // namespace

std::int64_t workspace_floats(const ModelSpec& model, bool degree_negatives, std::int64_t positives,
                              std::int64_t chunk_size, std::int64_t negatives_per_chunk) {
  DeviceBatch batch{};
  batch.positives = positives;
  batch.chunk_size = chunk_size;
  batch.negatives_per_chunk = negatives_per_chunk;
  Step s = make_step(model, parts_of(model), {}, degree_negatives, batch);
  return lay_out(s);
}

void compute_gradients(const ModelSpec& model, const LossSpec& loss, bool degree_negatives, const DeviceBatch& batch,
                       DeviceRows entities, DeviceRows relations, const DeviceGradients& out,
                       const DeviceExchange* exchange, std::uintptr_t stream_address) {
  Step s = make_step(model, parts_of(model), loss, degree_negatives, batch);
  s.entities = entities;
  s.relations = relations;
  s.out = out;
  s.aligned_out = s.part % 4 == 0 && out.negative.stride % 4 == 0 &&
                  reinterpret_cast<std::uintptr_t>(out.negative.data) % sizeof(float4) == 0;
  lay_out(s);
  const auto stream = reinterpret_cast<cudaStream_t>(stream_address);
  if (model.name == "TransE_l1") return run<TransEL1, L1Pairs, DistanceScores>(s, exchange, stream);
  if (model.name == "TransE_l2" || model.name == "TransE") return run<TransEL2, L2Pairs, L2Scores>(s, exchange, stream);
  if (model.name == "DistMult") return run<DistMult, DotPairs, DotScores>(s, exchange, stream);
  if (model.name == "ComplEx") return run<ComplEx, DotPairs, DotScores>(s, exchange, stream);
  if (model.name == "SimplE") return run<SimplE, DotPairs, ClampedDotScores>(s, exchange, stream);
  if (model.name == "RotatE") return run<RotatE, ModulusPairs, DistanceScores>(s, exchange, stream);
  throw std::invalid_argument(model.name + " has no CUDA kernels; train it on the CPU");
}

}  // namespace frugal::cuda
