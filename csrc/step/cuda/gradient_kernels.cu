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
#include "step/cuda/gradient_kernels.h"
#include "step/cuda/pairs.cuh"
#include "step/regularization.h"

namespace frugal::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kRowsPerBlock = kThreads / kLanes;  // rows that half-warps work on, one each
constexpr int kQueries = 8;                       // queries or negatives of a block that compares

std::int64_t pieces(std::int64_t count, std::int64_t size) { return (count + size - 1) / size; }

// What every kernel of a step needs. Rows of the workspace are `stride` floats apart.
struct Step {
  ModelNumbers model;
  LossSpec loss;
  DeviceBatch batch;
  DeviceRows entities, relations;
  DeviceGradients out;
  std::int64_t own, columns, vectors, chunks;
  std::int64_t stride, weight_stride;
  float *query, *panel, *negative_square, *weight, *head, *tail;
  float *positive_score, *memo, *query_square;             // (B,)
  float *positive_loss, *negative_loss;                    // (B,) times edge importance
  float *entity_regularization, *relation_regularization;  // (most_entities,), (most_relations,) times reads

  FRUGAL_DEVICE float* entity(std::int64_t slot) const { return entities.data + slot * entities.stride; }
  FRUGAL_DEVICE std::int32_t slot(std::int64_t chunk, std::int64_t column) const {
    if (column >= own) return batch.negative_slot[chunk * batch.negatives_per_chunk + column - own];
    return (batch.corrupt_head ? batch.head_slot : batch.tail_slot)[chunk * batch.chunk_size + column];
  }
  FRUGAL_DEVICE Triple triple(std::int64_t edge) const {
    return {entity(batch.head_slot[edge]), relations.data + batch.relation_slot[edge] * relations.stride,
            entity(batch.tail_slot[edge])};
  }
  FRUGAL_DEVICE float* panels(std::int64_t chunk) const { return panel + chunk * vectors * kLanes * model.entity_dim; }
};

// Which row a half-warp of the grid works on.
FRUGAL_LANES std::int64_t row_of_half_warp() {
  return static_cast<std::int64_t>(blockIdx.x) * kRowsPerBlock + threadIdx.x / kLanes;
}

// Queries and positive scores of edges; then negatives, into panels.
template <typename Program>
__global__ void __launch_bounds__(kThreads) prepare_kernel(Step s) {
  const std::int64_t row = row_of_half_warp(), dim = s.model.entity_dim;
  if (row < s.batch.positives) {
    float* query = s.query + row * s.stride;
    const float score = Program::forward(s.model, s.triple(row), s.batch.corrupt_head, query, s.memo + row);
    s.positive_score[row] = score;
    if (Program::kSimilarity == Similarity::kL2) s.query_square[row] = dot(query, query, dim);
    return;
  }
  const std::int64_t padded = s.vectors * kLanes, negative = row - s.batch.positives;
  const std::int64_t chunk = negative / padded, column = negative % padded;
  if (chunk >= s.chunks) return;
  const std::int64_t filled = column < s.columns ? column : s.columns - 1;  // the last one fills up the panel
  const float* source = s.entity(s.slot(chunk, filled));
  float* panel = s.panels(chunk) + column / kLanes * kLanes * dim + column % kLanes;
  for (std::int64_t p = lane(); p < dim; p += kLanes) panel[p * kLanes] = source[p];
  if (Program::kSimilarity == Similarity::kL2 && column < s.columns)
    s.negative_square[chunk * padded + column] = dot(source, source, dim);
}

// kQueries queries of one chunk: comparisons, losses, weights, and the gradients of their positives' leaves.
template <typename Program, typename Pairs>
__global__ void __launch_bounds__(kThreads) score_kernel(Step s) {
  extern __shared__ float shared[];
  const std::int64_t dim = s.model.entity_dim, blocks = (s.batch.chunk_size + kQueries - 1) / kQueries;
  const std::int64_t chunk = blockIdx.x / blocks, first = blockIdx.x % blocks * kQueries;
  const std::int64_t count = s.batch.chunk_size - first < kQueries ? s.batch.chunk_size - first : kQueries;
  const std::int64_t first_edge = chunk * s.batch.chunk_size + first, padded = s.vectors * kLanes;
  float* query = shared;                                 // (kQueries, stride)
  float* values = query + kQueries * s.stride;           // (kQueries, weight_stride)
  float* slope = values + kQueries * s.weight_stride;    // (kQueries, weight_stride)
  float* gradient = slope + kQueries * s.weight_stride;  // (kQueries, stride)
  __shared__ float score_gradient[kQueries], sums[kQueries];

  for (std::int64_t k = threadIdx.x; k < kQueries * s.stride; k += kThreads)
    query[k] = k < count * s.stride ? s.query[first_edge * s.stride + k] : 0.0f;
  __syncthreads();
  for (std::int64_t column = threadIdx.x; column < padded; column += kThreads) {
    float value[kQueries];
    Pairs::template compare<kQueries>(dim, query, s.stride,
                                      s.panels(chunk) + column / kLanes * kLanes * dim + column % kLanes, value);
    for (int i = 0; i < kQueries; ++i) values[i * s.weight_stride + column] = value[i];
  }
  __syncthreads();

  const int i = threadIdx.x / kLanes;  // a half-warp per query; the others have none
  if (i < count) {
    const std::int64_t edge = first_edge + i;
    const float importance = s.batch.weight ? s.batch.weight[edge] : 1.0f;
    QueryRow row;
    row.values = values + i * s.weight_stride;
    row.slope = slope + i * s.weight_stride;
    row.negatives = s.columns;
    row.vectors = s.vectors;
    row.own = s.own > 0 ? first + i : -1;
    row.query_square = Program::kSimilarity == Similarity::kL2 ? s.query_square[edge] : 0.0f;
    row.negative_square = s.negative_square + chunk * padded;
    row.gamma = s.model.gamma;
    row.positive_score = s.positive_score[edge];
    row.scale = importance * (s.loss.pairwise ? 1.0f : 0.5f) / static_cast<float>(s.batch.positives);
    const QueryLoss negatives = score_row<typename Pairs::Scores>(s.loss, row);
    s.negative_loss[edge] = importance * negatives.loss;
    if (s.loss.pairwise) {
      s.positive_loss[edge] = 0.0f;
      score_gradient[i] = negatives.positive_derivative;
    } else {
      const LossValue positive = positive_loss(s.loss, row.positive_score);
      s.positive_loss[edge] = importance * positive.loss;
      score_gradient[i] = row.scale * positive.derivative;
    }
    meet_lanes();
    if (Pairs::kNeedsSums) {
      const float sum = sum_row(s.columns, [&](std::int64_t j, auto read) { return read(row.values + j); });
      sums[i] = sum;
    }
    float* kept = s.weight + edge * s.weight_stride;
    for (std::int64_t j = lane(); j < padded; j += kLanes) kept[j] = row.values[j];
  }
  __syncthreads();

  for (std::int64_t p = threadIdx.x; p < Pairs::threads(dim); p += kThreads)
    Pairs::template gradient<kQueries>(
        dim, p, s.columns, query, s.stride, [&](std::int64_t j) { return s.entity(s.slot(chunk, j)); },
        [&](int q, std::int64_t j) { return values[q * s.weight_stride + j]; }, sums, gradient, s.stride);
  __syncthreads();
  if (i < count) {
    const std::int64_t edge = first_edge + i;
    Program::backward(
        s.model, s.triple(edge), s.batch.corrupt_head, s.memo[edge], score_gradient[i], gradient + i * s.stride,
        {s.head + edge * s.stride, s.out.relation.data + edge * s.out.relation.stride, s.tail + edge * s.stride});
  }
}

// Gradients of kQueries negatives of one chunk. Those of the chunk's own side are added to its leaves.
template <typename Pairs>
__global__ void __launch_bounds__(kThreads) negative_kernel(Step s) {
  extern __shared__ float shared[];
  const std::int64_t dim = s.model.entity_dim, blocks = (s.columns + kQueries - 1) / kQueries;
  const std::int64_t chunk = blockIdx.x / blocks, first = blockIdx.x % blocks * kQueries;
  const std::int64_t count = s.columns - first < kQueries ? s.columns - first : kQueries;
  const std::int64_t first_edge = chunk * s.batch.chunk_size;
  float* mine = shared;                            // (kQueries, stride)
  float* gradient = mine + kQueries * s.stride;    // (kQueries, stride)
  float* weight = gradient + kQueries * s.stride;  // (chunk_size, kQueries)
  __shared__ float sums[kQueries];

  for (std::int64_t k = threadIdx.x; k < kQueries * dim; k += kThreads) {
    const std::int64_t q = k / dim, p = k % dim;
    mine[q * s.stride + p] = q < count ? s.entity(s.slot(chunk, first + q))[p] : 0.0f;
  }
  for (std::int64_t k = threadIdx.x; k < s.batch.chunk_size * kQueries; k += kThreads) {
    const std::int64_t edge = k / kQueries, q = k % kQueries;
    weight[k] = q < count ? s.weight[(first_edge + edge) * s.weight_stride + first + q] : 0.0f;
  }
  __syncthreads();
  if (Pairs::kNeedsSums && threadIdx.x < kQueries) {
    float sum = 0.0f;
    for (std::int64_t i = 0; i < s.batch.chunk_size; ++i) sum += weight[i * kQueries + threadIdx.x];
    sums[threadIdx.x] = sum;
  }
  __syncthreads();
  for (std::int64_t p = threadIdx.x; p < Pairs::threads(dim); p += kThreads)
    Pairs::template gradient<kQueries>(
        dim, p, s.batch.chunk_size, mine, s.stride,
        [&](std::int64_t i) { return s.query + (first_edge + i) * s.stride; },
        [&](int q, std::int64_t i) { return weight[i * kQueries + q]; }, sums, gradient, s.stride);
  __syncthreads();
  for (std::int64_t k = threadIdx.x; k < count * dim; k += kThreads) {
    const std::int64_t column = first + k / dim, p = k % dim;
    const float value = gradient[k / dim * s.stride + p];
    if (column < s.own)
      (s.batch.corrupt_head ? s.head : s.tail)[(first_edge + column) * s.stride + p] += value;
    else
      s.out.negative.data[(chunk * s.batch.negatives_per_chunk + column - s.own) * s.out.negative.stride + p] = value;
  }
}

// A half-warp per distinct row: an entity's positive occurrences summed; regularization added to all of a row's
// gradients.
__global__ void __launch_bounds__(kThreads) rows_kernel(Step s) {
  std::int64_t row = row_of_half_warp();
  const std::int64_t dim = s.model.entity_dim, relation_dim = s.model.relation_dim;
  const float norm = s.loss.regularization_norm;
  const bool regularized = s.loss.regularization_coefficient > 0.0f && norm > 0.0f;
  const Vec factor = broadcast(s.loss.regularization_coefficient * norm);
  const auto power_sum = [&](const float* x, std::int64_t n) {
    return sum_row(n, [&](std::int64_t i, auto read) { return penalty_slope(norm, read(x + i)) * read(x + i); });
  };
  if (row < s.batch.most_entities) {
    if (row >= s.batch.counts[0]) return;
    const std::int32_t begin = s.batch.positive_offset[row], end = s.batch.positive_offset[row + 1];
    const std::int32_t first = s.batch.negative_offset[row], last = s.batch.negative_offset[row + 1];
    const float* x = s.entity(row);
    const auto end_of = [&](std::int32_t o) {
      const std::int64_t at = s.batch.positive_occurrence[o];
      return at < s.batch.positives ? s.head + at * s.stride : s.tail + (at - s.batch.positives) * s.stride;
    };
    for_row(dim, [&](std::int64_t i, auto read, auto write) {
      const Vec penalty = regularized ? factor * penalty_slope(norm, read(x + i)) : broadcast(0.0f);
      if (end > begin) {
        Vec sum = read(end_of(begin) + i);
        for (std::int32_t o = begin + 1; o < end; ++o) sum = sum + read(end_of(o) + i);
        write(s.out.positive.data + row * s.out.positive.stride + i, regularized ? sum + penalty : sum);
      }
      if (!regularized) return;
      for (std::int32_t o = first; o < last; ++o) {
        float* gradient = s.out.negative.data + s.batch.negative_occurrence[o] * s.out.negative.stride + i;
        write(gradient, read(gradient) + penalty);
      }
    });
    if (regularized) s.entity_regularization[row] = ((end > begin) + (last - first)) * power_sum(x, dim);
    return;
  }
  row -= s.batch.most_entities;
  if (!regularized) return;
  if (row < s.batch.most_relations) {
    if (row >= s.batch.counts[1]) return;
    const float* x = s.relations.data + row * s.relations.stride;
    const std::int32_t edges = s.batch.relation_offset[row + 1] - s.batch.relation_offset[row];
    s.relation_regularization[row] = edges * power_sum(x, relation_dim);
    return;
  }
  row -= s.batch.most_relations;
  if (row >= s.batch.positives) return;
  const float* x = s.triple(row).relation;
  float* gradient = s.out.relation.data + row * s.out.relation.stride;
  for_row(relation_dim, [&](std::int64_t i, auto read, auto write) {
    write(gradient + i, read(gradient + i) + factor * penalty_slope(norm, read(x + i)));
  });
}

// One block: sums in a fixed order, added to the running ones.
__global__ void __launch_bounds__(kThreads) loss_kernel(Step s) {
  __shared__ double partial[3][kThreads];
  double positive = 0.0, negative = 0.0, penalty = 0.0;
  for (std::int64_t i = threadIdx.x; i < s.batch.positives; i += kThreads) {
    positive += s.positive_loss[i];
    negative += s.negative_loss[i];
  }
  if (s.loss.regularization_coefficient > 0.0f && s.loss.regularization_norm > 0.0f) {
    for (std::int64_t i = threadIdx.x; i < s.batch.counts[0]; i += kThreads) penalty += s.entity_regularization[i];
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

// Cuts the workspace; with a null workspace only counts its floats.
std::int64_t lay_out(Step& s) {
  std::int64_t used = 0;
  const auto take = [&](std::int64_t floats) {
    float* at = s.out.workspace ? s.out.workspace + used : nullptr;
    used += pieces(floats, kLanes) * kLanes;
    return at;
  };
  const std::int64_t positives = s.batch.positives, padded = s.chunks * s.vectors * kLanes;
  s.query = take(positives * s.stride);
  s.panel = take(padded * s.model.entity_dim);
  s.negative_square = take(padded);
  s.weight = take(positives * s.weight_stride);
  s.head = take(positives * s.stride);
  s.tail = take(positives * s.stride);
  for (float** each : {&s.positive_score, &s.memo, &s.query_square, &s.positive_loss, &s.negative_loss})
    *each = take(positives);
  s.entity_regularization = take(2 * positives + s.chunks * s.batch.negatives_per_chunk);
  s.relation_regularization = take(positives);
  return used;
}

Step make_step(const ModelSpec& model, const LossSpec& loss, bool degree_negatives, const DeviceBatch& batch) {
  Step s{};
  s.model = {model.entity_dim, model.relation_dim, model.gamma, model.embedding_range / static_cast<float>(M_PI)};
  s.loss = loss;
  s.batch = batch;
  s.chunks = batch.positives / batch.chunk_size;
  s.own = degree_negatives ? batch.chunk_size : 0;
  s.columns = s.own + batch.negatives_per_chunk;
  s.vectors = pieces(s.columns, kLanes);
  s.stride = pieces(model.entity_dim, kLanes) * kLanes;
  s.weight_stride = s.vectors * kLanes;
  return s;
}

template <typename Kernel>
void launch(Kernel kernel, std::int64_t blocks, std::size_t shared_bytes, cudaStream_t stream, const Step& s,
            const char* name) {
  if (shared_bytes > 0)  // more than 48 KiB has to be asked for
    cuda_check(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes)),
        std::string("reserving shared memory for ") + name, "make --hidden_dim or --neg_sample_size smaller");
  kernel<<<static_cast<unsigned>(blocks), kThreads, shared_bytes, stream>>>(s);
  cuda_check(cudaGetLastError(), std::string("launching ") + name);
}

template <typename Program, typename Pairs>
void run(const Step& s, cudaStream_t stream) {
  const std::int64_t negatives = s.chunks * s.vectors * kLanes;
  launch(prepare_kernel<Program>, pieces(s.batch.positives + negatives, kRowsPerBlock), 0, stream, s, "queries");
  launch(score_kernel<Program, Pairs>, s.chunks * pieces(s.batch.chunk_size, kQueries),
         sizeof(float) * kQueries * 2 * (s.stride + s.weight_stride), stream, s, "scores");
  launch(negative_kernel<Pairs>, s.chunks * pieces(s.columns, kQueries),
         sizeof(float) * kQueries * (2 * s.stride + s.batch.chunk_size), stream, s, "gradients of negatives");
  launch(rows_kernel, pieces(s.batch.most_entities + s.batch.most_relations + s.batch.positives, kRowsPerBlock), 0,
         stream, s, "sums of gradients");
  launch(loss_kernel, 1, 0, stream, s, "sums of losses");
}

}  // namespace

std::int64_t workspace_floats(const ModelSpec& model, bool degree_negatives, std::int64_t positives,
                              std::int64_t chunk_size, std::int64_t negatives_per_chunk) {
  DeviceBatch batch{};
  batch.positives = positives;
  batch.chunk_size = chunk_size;
  batch.negatives_per_chunk = negatives_per_chunk;
  Step s = make_step(model, {}, degree_negatives, batch);
  return lay_out(s);
}

void compute_gradients(const ModelSpec& model, const LossSpec& loss, bool degree_negatives, const DeviceBatch& batch,
                       DeviceRows entities, DeviceRows relations, const DeviceGradients& out,
                       std::uintptr_t stream_address) {
  Step s = make_step(model, loss, degree_negatives, batch);
  s.entities = entities;
  s.relations = relations;
  s.out = out;
  lay_out(s);
  const auto stream = reinterpret_cast<cudaStream_t>(stream_address);
  if (model.name == "TransE_l1") return run<TransEL1, L1Pairs>(s, stream);
  if (model.name == "TransE_l2" || model.name == "TransE") return run<TransEL2, L2Pairs>(s, stream);
  if (model.name == "DistMult") return run<DistMult, DotPairs<DotScores>>(s, stream);
  if (model.name == "ComplEx") return run<ComplEx, DotPairs<DotScores>>(s, stream);
  if (model.name == "SimplE") return run<SimplE, DotPairs<ClampedDotScores>>(s, stream);
  if (model.name == "RotatE") return run<RotatE, ModulusPairs>(s, stream);
  throw std::invalid_argument(model.name + " has no CUDA kernels; train it on the CPU");
}

}  // namespace frugal::cuda
