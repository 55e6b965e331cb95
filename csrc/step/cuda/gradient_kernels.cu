#include <algorithm>
#include <stdexcept>
#include <string>

#include "base/device/cuda_check.h"
#include "models/row_models.h"
#include "models/similarity/score_row.h"
#include "step/cuda/column_shares.cuh"
#include "step/cuda/device_penalty.cuh"
#include "step/cuda/device_step.cuh"
#include "step/cuda/edge_gradients.cuh"
#include "step/cuda/known_loss.cuh"
#include "step/cuda/modulus_wave.cuh"
#include "step/cuda/pair_passes.cuh"
#include "step/cuda/shared_copy.cuh"
#include "step/cuda/sum_pass.cuh"

namespace frugal::cuda {
namespace {

constexpr int kThreads = 64, kTeams = kThreads / kLanes;  // half-warps of a block, a row each, or all one of scores
static_assert(kTeams == kRowTeams);

// Rows of one edge in shared memory, where loops over them wait for nothing.
struct EdgeRows {
  float *head, *tail, *query, *relation, *relation_gradient;

  static __host__ __device__ std::int64_t floats(const Step& s) { return 3 * s.edge_stride + 2 * relation_stride(s); }
  static __host__ __device__ std::int64_t relation_stride(const Step& s) {
    return (s.model.relation_dim + kLanes - 1) / kLanes * kLanes;
  }

  __device__ EdgeRows(const Step& s, float* at)
      : head(at),
        tail(head + s.edge_stride),
        query(tail + s.edge_stride),
        relation(query + s.edge_stride),
        relation_gradient(relation + relation_stride(s)) {}

  // By a half-warp; there once its copies are.
  __device__ void load(const Step& s, const float* from_head, const float* from_tail,
                       const float* from_relation) const {
    start_copy<kLanes>(head, from_head, s.model.entity_dim);
    start_copy<kLanes>(tail, from_tail, s.model.entity_dim);
    start_copy<kLanes>(relation, from_relation, s.model.relation_dim);
  }
  __device__ Triple triple() const { return {head, relation, tail}; }
};

__device__ float power_sum(float norm, const float* x, std::int64_t n) {
  return sum_row(n, [&](std::int64_t i, auto read) { return slope_of_penalty(norm, read(x + i)) * read(x + i); });
}

// Writes n floats from shared memory, by a half-warp, 16 bytes at a time where they allow it.
__device__ void write_row(const float* from, std::int64_t n, float* to) {
  const auto places = reinterpret_cast<std::uintptr_t>(from) | reinterpret_cast<std::uintptr_t>(to);
  if (places % sizeof(float4) == 0 && n % 4 == 0) {
#pragma unroll 4
    for (std::int64_t p = 4 * lane(); p < n; p += 4 * kLanes)
      *reinterpret_cast<float4*>(to + p) = *reinterpret_cast<const float4*>(from + p);
    return;
  }
#pragma unroll 4
  for (std::int64_t p = lane(); p < n; p += kLanes) to[p] = from[p];
}
__device__ void write_parts(const Step& s, const float* from, float* to) {
  for (std::int64_t first = 0, at = 0; first < s.model.entity_dim; first += s.part, at += s.part_stride)
    write_row(from + first, s.part, to + at);
}

// Queries and positive scores of edges, a half-warp each.
template <typename Program>
__device__ void prepare_edge(const Step& s, std::int64_t edge, float* shared) {
  const EdgeRows rows(s, shared);
  rows.load(s, s.early_entity(s.batch.head_slot[edge]), s.early_entity(s.batch.tail_slot[edge]),
            s.early_relation(s.batch.relation_slot[edge]));
  finish_copies(half_warp());
  s.put(edge, s.positive_score + edge, Program::raw(s.model, rows.triple(), s.batch.corrupt_head, rows.query));
  sync_lanes();
  const std::int64_t dim = s.model.entity_dim;
  if (Program::kSimilarity == Similarity::kL2) s.put(edge, s.query_square + edge, dot(rows.query, rows.query, dim));
  write_parts(s, rows.query, s.query + edge * s.stride);
}

// One of the rows that are looked at one by one: a column of a chunk, a distinct entity or a distinct relation.
struct SingleRow {
  enum Kind { kColumn, kEntity, kRelation, kNone } kind = kNone;
  std::int64_t row = 0, floats = 0;
  const float* from = nullptr;

  static __host__ __device__ std::int64_t columns(const Step& s) { return s.chunks * s.columns; }
  static std::int64_t distinct(const Step& s) { return s.batch.most_entities + s.batch.most_relations; }

  __device__ SingleRow(const Step& s, std::int64_t number) : row(number) {
    if (row < columns(s)) {
      kind = kColumn, floats = s.model.entity_dim;
      const auto place = static_cast<std::uint32_t>(row), columns = static_cast<std::uint32_t>(s.columns);
      from = s.early_entity(s.slot(place / columns, place % columns));
      return;
    }
    row -= columns(s);
    if (row < s.batch.most_entities) {
      if (row >= s.batch.counts[0]) return;
      from = s.early_entity(row);
      floats = from == s.entity(row) ? s.model.entity_dim : s.entity_reads.memory.record_floats();
      kind = kEntity;
      return;
    }
    row -= s.batch.most_entities;
    if (row >= s.batch.most_relations || row >= s.batch.counts[1]) return;
    from = s.early_relation(row);
    floats = from == s.relation(row) ? s.model.relation_dim : s.relation_reads.memory.record_floats();
    kind = kRelation;
  }
};

// Copies of negatives; distinct rows gathered, and their regularization. `copy`: the row.
template <typename Program>
__device__ void prepare_row(const Step& s, const SingleRow& single, const float* copy) {
  const std::int64_t dim = s.model.entity_dim, row = single.row;
  if (single.kind == SingleRow::kColumn) {
    write_parts(s, copy, s.negative + row * s.stride);
    if (Program::kSimilarity == Similarity::kL2) {
      const auto number = static_cast<std::uint32_t>(row), columns = static_cast<std::uint32_t>(s.columns);
      const std::uint32_t chunk = number / columns;
      s.put_for_chunk(chunk, s.negative_square + chunk * s.weight_stride + number % columns, dot(copy, copy, dim));
    }
    return;
  }
  if (single.kind == SingleRow::kNone) return;
  const bool is_entity = single.kind == SingleRow::kEntity;
  float* record = is_entity ? s.entities.data + row * s.entities.stride : s.relations.data + row * s.relations.stride;
  if (single.from != record) write_row(copy, single.floats, record);
  if (!s.regularized) return;
  const float norm = s.loss.regularization_norm;
  if (is_entity) {
    const bool positive = s.batch.positive_offset[row + 1] > s.batch.positive_offset[row];
    const std::int32_t reads = positive + s.batch.negative_offset[row + 1] - s.batch.negative_offset[row];
    s.entity_regularization[row] = reads * power_sum(norm, copy, dim);
  } else {
    const std::int32_t edges = s.batch.relation_offset[row + 1] - s.batch.relation_offset[row];
    s.relation_regularization[row] = edges * power_sum(norm, copy, s.model.relation_dim);
  }
}

__host__ __device__ std::int64_t edge_blocks(const Step& s) { return (s.batch.positives + kTeams - 1) / kTeams; }

// Floats of shared memory that a half-warp of prepare_kernel has, and of one of its rows.
__host__ __device__ std::int64_t row_floats(const Step& s) {
  const std::int64_t most = s.model.entity_dim > s.model.relation_dim ? s.model.entity_dim : s.model.relation_dim;
  return (most / 4 + 1) * 4;  // with the state
}
__host__ __device__ std::int64_t prepare_floats(const Step& s) {
  const std::int64_t edge = EdgeRows::floats(s) - EdgeRows::relation_stride(s), rows = row_floats(s);
  return ((edge > rows ? edge : rows) + 3) / 4 * 4;
}

// By a half-warp. copy: row_floats of shared memory.
template <typename Program>
__device__ void prepare_single_row(const Step& s, std::int64_t number, float* copy) {
  const SingleRow single(s, number);
  start_copy<kLanes>(copy, single.from, single.floats);
  finish_copies(half_warp());
  prepare_row<Program>(s, single, copy);
}

// The first blocks take edges, the others single rows.
template <typename Program>
__global__ void __launch_bounds__(kThreads) prepare_kernel(Step s) {
  extern __shared__ __align__(16) float shared[];
  float* const mine = shared + threadIdx.x / kLanes * prepare_floats(s);
  const std::int64_t team = threadIdx.x / kLanes, block = blockIdx.x - edge_blocks(s);
  if (block < 0) {
    const std::int64_t edge = static_cast<std::int64_t>(blockIdx.x) * kTeams + team;
    if (edge < s.batch.positives) prepare_edge<Program>(s, edge, mine);
    return;
  }
  prepare_single_row<Program>(s, block * kTeams + team, mine);
}

// By a block, whose half-warps share a row: from a query's comparisons through scores and losses to the weights of its
// pairs. kVectors: of a row, or 0 for any number.
template <typename Program, typename Scores, bool kSquared, KnownLoss kKnown, int kVectors, typename Values>
__device__ void compute_query_loss(const Step& s, std::int64_t edge, const Values& raw, float* shared) {
  const LossSpec loss = with_known<kKnown>(s.loss);
  const std::int64_t stride = kVectors > 0 ? kVectors * kLanes : s.weight_stride;
  const std::int64_t chunk = edge / s.batch.chunk_size;
  const float importance = s.batch.weight ? s.batch.weight[edge] : 1.0f;
  QueryRow row;
  row.values = shared;
  row.slope = row.values + stride;
  float* square = row.slope + stride;
  row.negatives = s.columns;
  row.vectors = stride / kLanes;
  row.own = s.own > 0 ? edge % s.batch.chunk_size : -1;
  row.negative_square = square;
  row.terms = square + stride;
  // Before the rows, whose way to shared memory later loads would wait for.
  const float positive = raw.value(s.positive_score + edge);
  row.query_square = kSquared ? raw.value(s.query_square + edge) : 0.0f;
  raw.load(s.comparison + edge * stride, stride, row.values);
  if (kSquared) raw.load(s.negative_square + chunk * stride, stride, square);
  row.gamma = s.model.gamma;
  QueryState state = {};
  row.positive_score = Program::finish(s.model, positive, &state.saved);
  row.scale = importance * (loss.joint() ? 1.0f : 0.5f) / static_cast<float>(s.batch.positives);
  finish_copies();
  const QueryLoss negatives = score_row<Scores>(loss, row);
  state.negative_loss = importance * negatives.loss;
  state.score_gradient = negatives.positive_derivative;
  if (!loss.joint()) {
    const LossValue positive = positive_loss(loss, row.positive_score);
    state.positive_loss = importance * positive.loss;
    state.score_gradient = row.scale * positive.derivative;
  }
  sync_teams();
  for (std::int64_t j = 4 * threadIdx.x; j < stride; j += 4 * kThreads)
    s.give(s.weight + edge * stride + j, *reinterpret_cast<const float4*>(row.values + j));
  if (row_team() != 0) return;
  if (kSquared)
    state.weight_sum = sum_row(s.columns, [&](std::int64_t j, auto read) { return read(row.values + j); });
  if constexpr (Program::kSimilarity == Similarity::kModulus) {
    bool normal_range = true;
#pragma unroll 8
    for (std::int64_t j = lane(); j < stride; j += kLanes)
      normal_range = normal_range & is_weight_in_normal_range(row.values[j]);
    state.normal_range = __ballot_sync(half_warp(), !normal_range) == 0 ? 1.0f : 0.0f;
  }
  float* const to = reinterpret_cast<float*>(s.query_states + edge);
  if (lane() == 0) s.give(to, {state.saved, state.score_gradient, state.weight_sum, state.normal_range});
  if (lane() == 1) s.give(to + 4, {state.positive_loss, state.negative_loss, 0.0f, 0.0f});
}

// Floats of shared memory: a row five times.
std::int64_t loss_floats(const Step& s) { return 5 * s.weight_stride; }

// first: of the `rows` positives. Where ranks have columns, blocks behind those of positives take
// the distinct rows, since losses wait for the links between devices.
template <typename Program, typename Scores, bool kSquared, KnownLoss kKnown, int kVectors, typename Values>
__global__ void __launch_bounds__(kThreads) loss_kernel(Step s, std::int64_t first, std::int64_t rows) {
  extern __shared__ __align__(16) float shared[];
  if constexpr (Values::kOfRanks) {
    const std::int64_t block = blockIdx.x - rows, team = threadIdx.x / kLanes;
    const std::int64_t number = SingleRow::columns(s) + block * kTeams + team;
    if (block >= 0) return prepare_single_row<Program>(s, number, shared + team * row_floats(s));
  }
  compute_query_loss<Program, Scores, kSquared, kKnown, kVectors>(s, first + blockIdx.x, Values{s}, shared);
}

// Where tiles have not made them (edge_gradients.cuh). A half-warp per edge: from the gradients of its query and its
// score to those of its rows, of which the relation's is ready then. A row on the side of the chunk's own negatives
// has its gradient as a negative added.
template <typename Program>
__global__ void __launch_bounds__(kThreads) edge_gradients_kernel(Step s) {
  extern __shared__ __align__(16) float shared[];
  const std::int64_t edge = static_cast<std::int64_t>(blockIdx.x) * kTeams + threadIdx.x / kLanes;
  if (edge >= s.batch.positives) return;
  const EdgeRows rows(s, shared + threadIdx.x / kLanes * EdgeRows::floats(s));
  for (std::int64_t first = 0, at = 0; first < s.model.entity_dim; first += s.part, at += s.part_stride)
    start_copy<kLanes>(rows.query + first, s.query_gradient + edge * s.stride + at, s.part);
  rows.load(s, s.entity(s.batch.head_slot[edge]), s.entity(s.batch.tail_slot[edge]),
            s.relation(s.batch.relation_slot[edge]));
  finish_copies(half_warp());
  float *head = s.edge_gradient + edge * s.edge_stride, *tail = head + s.batch.positives * s.edge_stride;
  const QueryState& state = s.query_states[edge];
  Program::backward(s.model, rows.triple(), s.batch.corrupt_head, state.saved, state.score_gradient, rows.query,
                    {head, rows.relation_gradient, tail});
  sync_lanes();
  if (s.own > 0) {
    float* end = s.batch.corrupt_head ? head : tail;
    const float* own = s.own_gradient + edge * s.stride;
    for (std::int64_t p = lane(); p < s.model.entity_dim; p += kLanes) end[p] += own[s.place(p)];
  }
  float* relation = s.out.relation.data + edge * s.out.relation.stride;
  const float norm = s.loss.regularization_norm;
  const Vec factor = broadcast(s.loss.regularization_coefficient * norm);
  for_row(s.model.relation_dim, [&](std::int64_t i, auto read, auto write) {
    const Vec gradient = read(rows.relation_gradient + i);
    write(relation + i, s.regularized ? gradient + factor * slope_of_penalty(norm, read(rows.relation + i)) : gradient);
  });
}

template <typename Kernel, typename... More>
void launch(Kernel kernel, std::int64_t blocks, int threads, std::int64_t shared_floats, cudaStream_t stream,
            const char* name, const Step& s, const More&... more) {
  const auto bytes = static_cast<int>(sizeof(float) * shared_floats);
  constexpr int kFreeOfAsking = 48 << 10;
  if (bytes > kFreeOfAsking)
    cuda_check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
               std::string("reserving shared memory for ") + name, "make --hidden_dim or --neg_sample_size smaller");
  kernel<<<static_cast<unsigned>(blocks), threads, bytes, stream>>>(s, more...);
  cuda_check(cudaGetLastError(), std::string("launching ") + name);
}

template <typename P>
void launch_comparisons(const Step& s, cudaStream_t stream) {
  if constexpr (requires { typename P::OfShortRows; })
    if (s.part <= kShortRow) return launch_comparisons<typename P::OfShortRows>(s, stream);
  using T = CompareTile<P>;
  launch(compare_kernel<P>, compare_blocks<P>(s), T::kThreads, T::kSharedFloats, stream, "comparisons", s);
}

// The losses of this device's share of the positives.
template <typename Program, typename P, typename Scores, typename Values>
void launch_losses(const Step& s, cudaStream_t stream) {
  const Share own = s.own_share();
  const std::int64_t distinct = Values::kOfRanks ? pieces(SingleRow::distinct(s), kTeams) : 0;
  const std::int64_t floats = distinct > 0 ? std::max(loss_floats(s), kTeams * row_floats(s)) : loss_floats(s);
  with_known_loss(s.loss, [&](auto known) {
    with_known_vectors<known()>(s.weight_stride / kLanes, [&](auto vectors) {
      launch(loss_kernel<Program, Scores, P::kSquared, known(), vectors(), Values>, own.rows() + distinct, kThreads,
             floats, stream, "losses", s, own.first, own.rows());
    });
  });
}

template <typename P, typename Queries>
void launch_pair_gradients(const Step& s, cudaStream_t stream) {
  launch(pair_gradient_kernel<P, Queries>, pair_gradient_blocks<P>(s), PairGradientTile<P, true>::kThreads,
         pair_gradient_floats<P, Queries>(), stream,
         "gradients of pairs", s);
}

// Gradients of pairs, then of edges, in one launch where that is possible.
template <typename Program, typename P>
void launch_gradients(const Step& s, cudaStream_t stream) {
  if constexpr (IsColumnwise<Program>)
    if (EdgeGradients<Program>::can_take(s)) return launch_pair_gradients<P, EdgeGradients<Program>>(s, stream);
  if constexpr (Program::kSimilarity == Similarity::kModulus)
    launch(wave_kernel, wave_blocks(s), Wave::kThreads, Wave::kFloats, stream, "gradients of pairs", s);
  else
    launch_pair_gradients<P, QueryGradients>(s, stream);
  launch(edge_gradients_kernel<Program>, pieces(s.batch.positives, kTeams), kThreads, kTeams * EdgeRows::floats(s),
         stream,
         "gradients of positives", s);
}

// A barrier of ranks; what has been written to host memory is fetched.
template <typename OfOthers>
void wait_and_fetch(const Step& s, const DeviceExchange& exchange, OfOthers of_others, cudaStream_t stream) {
  barrier(exchange, reinterpret_cast<std::uintptr_t>(stream));
  if (exchange.near || exchange.ranks == 1) return;
  enqueue(of_others(s, exchange), stream);
}

template <typename Program, typename P, typename Scores>
void run(const Step& s, const DeviceExchange* exchange, cudaStream_t stream) {
  const std::int64_t single_rows = SingleRow::columns(s) + (exchange ? 0 : SingleRow::distinct(s));
  launch(prepare_kernel<Program>, edge_blocks(s) + pieces(single_rows, kTeams), kThreads, kTeams * prepare_floats(s),
         stream, "queries", s);
  launch_comparisons<P>(s, stream);
  if (exchange) {
    wait_and_fetch(s, *exchange, raw_values_of_others, stream);
    launch_losses<Program, P, Scores, JoinedValues<kThreads>>(s, stream);
    wait_and_fetch(s, *exchange, weights_of_others, stream);
  } else {
    launch_losses<Program, P, Scores, OwnValues<kThreads>>(s, stream);
  }
  launch_gradients<Program, P>(s, stream);
  with_team(s, [&]<int kTeam>() {
    launch(sums_kernel<kTeam>, sum_blocks(s, kTeam), block_of_team(kTeam), sum_floats(s, kTeam), stream,
           "sums of gradients", s);
  });
}

template <typename Program, typename P, typename Scores>
void run_products(Products products, const Step& s, const DeviceExchange* exchange, cudaStream_t stream) {
  if (products == Products::kFloat32 || !runs_on_tensor_cores(compare_kernel<TensorPairs<P, 1>>))
    return run<Program, P, Scores>(s, exchange, stream);
  if (products == Products::kTf32) return run<Program, TensorPairs<P, 1>, Scores>(s, exchange, stream);
  run<Program, TensorPairs<P, 3>, Scores>(s, exchange, stream);
}

int parts_of_rows(const ModelSpec& model) {
  int parts = 1;
  RowModels::find(model.name, [&]<typename Program>() { parts = parts_of(Program::kSimilarity); });
  return parts;
}

}  // namespace

std::int64_t workspace_floats(const ModelSpec& model, bool degree_negatives, std::int64_t positives,
                              std::int64_t chunk_size, std::int64_t negatives_per_chunk) {
  DeviceBatch batch{};
  batch.positives = positives;
  batch.chunk_size = chunk_size;
  batch.negatives_per_chunk = negatives_per_chunk;
  Step s = make_step(model, parts_of_rows(model), {}, degree_negatives, batch);
  return lay_out(s);
}

void compute_gradients(const ModelSpec& model, const LossSpec& loss, bool degree_negatives, const DeviceBatch& batch,
                       DeviceRows entities, DeviceRows relations, const RecordReads& entity_reads,
                       const RecordReads& relation_reads, const DeviceGradients& out, Products products,
                       const DeviceExchange* exchange, std::uintptr_t stream_address) {
  Step s = make_step(model, parts_of_rows(model), loss, degree_negatives, batch);
  s.entities = entities;
  s.relations = relations;
  s.entity_reads = entity_reads;
  s.relation_reads = relation_reads;
  s.out = out;
  const auto aligned = [](const DeviceRows& rows) {
    return rows.stride % 4 == 0 && reinterpret_cast<std::uintptr_t>(rows.data) % sizeof(float4) == 0;
  };
  s.aligned_out = s.part % 4 == 0 && aligned(out.positive) && aligned(out.negative);
  s.aligned_edges = s.part % 4 == 0 && aligned(entities) && aligned(relations) && aligned(out.relation);
  lay_out(s);
  if (exchange) lay_out_shares(s, *exchange);
  const auto stream = reinterpret_cast<cudaStream_t>(stream_address);
  const bool found = RowModels::find(model.name, [&]<typename Program>() {
    constexpr Similarity kCompared = Program::kSimilarity;
    if constexpr (kCompared == Similarity::kDot)
      run_products<Program, DotPairs, DotScores>(products, s, exchange, stream);
    if constexpr (kCompared == Similarity::kClampedDot)
      run_products<Program, DotPairs, ClampedDotScores>(products, s, exchange, stream);
    if constexpr (kCompared == Similarity::kL2)
      run_products<Program, L2Pairs, L2Scores>(products, s, exchange, stream);
    if constexpr (kCompared == Similarity::kL1) run<Program, L1Pairs, DistanceScores>(s, exchange, stream);
    if constexpr (kCompared == Similarity::kModulus) run<Program, ModulusPairs, DistanceScores>(s, exchange, stream);
  });
  if (!found) throw std::invalid_argument(model.name + " has no CUDA kernels; train it on the CPU");
}

}  // namespace frugal::cuda
