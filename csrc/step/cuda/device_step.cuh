// The arguments of every kernel of a step, and how the workspace is cut.
#pragma once

#include <algorithm>

#include "base/linalg/simd.h"
#include "models/row_model.h"
#include "models/similarity/similarity.h"
#include "step/cuda/gradient_kernels.h"
#include "step/cuda/tiles.cuh"
#include "table/mean_square.h"

namespace frugal::cuda {

// The results of a positive in addition to the weights of its pairs.
struct alignas(16) QueryState {
  float saved, score_gradient;
  float weight_sum;                    // L2 alone
  float normal_range;                         // moduli alone: 1 if its weights are in the normal range, or 0
  float positive_loss, negative_loss;  // times edge importance
  float unused[2];
};
static_assert(sizeof(QueryState) == kQueryStateFloats * sizeof(float));

// Of ranks that have columns: each computes the losses of its share of the positives. ranks == 0: there are none.
struct Shares {
  int ranks = 0, rank = 0;
  std::uint32_t rows = 0;              // share_rows
  const float* own = nullptr;          // where this rank's raw values begin; others' begin elsewhere, and are cut alike
  float* to[kMostRanks] = {};          // by owner: where this rank's raw values of its share go
  const float* part[kMostRanks] = {};  // by rank: where its raw values of this rank's share are read
};

// Rows of queries, negatives and their gradients have `parts` parts (RotatE: real, imaginary), each padded, so that all
// of them are aligned.
struct Step {
  ModelNumbers model;
  LossSpec loss;
  DeviceBatch batch;
  DeviceRows entities, relations;
  RecordReads entity_reads, relation_reads;
  DeviceGradients out;
  bool regularized;
  bool aligned_out;     // whether the rows of out.positive and out.negative allow for stores of 16 bytes
  bool aligned_edges;  // whether records allow for loads of 16 bytes, and the rows of out.relation for stores
  int entity_power, relation_power;  // sum_level_power
  // Per chunk: the positives' own side, if negatives include it, then the sampled ones.
  std::int64_t chunks, own, columns;
  std::int64_t part, part_stride, stride;  // floats of a part, to the next part, to the next row
  std::int64_t edge_stride, weight_stride;
  float *query, *query_gradient;                           // (B, stride)
  float* negative;                                         // (chunks * columns, stride): copies
  float* own_gradient;                                     // (B, stride): as negatives
  float* comparison;                                       // (B, weight_stride): raw values of pairs
  float* positive_score;                                   // (B,) as Program::raw has it
  float* query_square;                                     // (B,): L2 alone
  float* negative_square;                                  // (chunks, weight_stride): L2 alone
  float* weight;                                           // (B, weight_stride): of pairs; one device alone writes them
                                                           // over the comparisons
  QueryState* query_states;  // (B,)
  float* edge_gradient;  // (2 B, edge_stride): gradients of heads, then of tails
  Shares shares;
  Mirrors mirrors;                                         // of weights and query states
  Mirrors square_mirrors;                                  // of mean squares, where other ranks' memory is near
  float *entity_regularization, *relation_regularization;  // (most_entities,), (most_relations,) times reads

  FRUGAL_DEVICE const float* entity(std::int64_t slot) const { return entities.data + slot * entities.stride; }
  FRUGAL_DEVICE const float* relation(std::int64_t slot) const { return relations.data + slot * relations.stride; }
  // The same where records may not have been gathered yet.
  FRUGAL_DEVICE const float* early_entity(std::int64_t slot) const {
    return early(entity_reads, slot, entity(slot));
  }
  FRUGAL_DEVICE const float* early_relation(std::int64_t slot) const {
    return early(relation_reads, slot, relation(slot));
  }
  FRUGAL_DEVICE static const float* early(const RecordReads& from, std::int64_t slot, const float* record) {
    return slot < from.reads.count && from.reads.wants(slot) ? source_of(from.memory, from.reads, slot) : record;
  }
  FRUGAL_DEVICE std::int32_t slot(std::int64_t chunk, std::int64_t column) const {
    if (column >= own) return batch.negative_slot[chunk * batch.negatives_per_chunk + column - own];
    return (batch.corrupt_head ? batch.head_slot : batch.tail_slot)[chunk * batch.chunk_size + column];
  }
  // The positives whose losses this device computes.
  Share own_share() const {
    return shares.ranks > 0 ? share_of(batch.positives, shares.rank, shares.ranks) : Share{0, batch.positives};
  }
  FRUGAL_DEVICE int owner(std::int64_t edge) const { return static_cast<std::uint32_t>(edge) / shares.rows; }
  // Where an owner reads the raw value whose place is `at`.
  FRUGAL_DEVICE float* raw_place(int owner, float* at) const { return shares.to[owner] + (at - shares.own); }
  // Stores a raw value of a positive. What is stored for others needs no fence here, which would wait for all stores on
  // their way to host memory, too: the word that says it is there comes from a later kernel of the same stream, which
  // happens after this one, and its release at system scope takes with it all that happened before (PTX's memory
  // consistency model, causality order).
  FRUGAL_DEVICE void put(std::int64_t edge, float* at, float value) const {
    *(shares.ranks > 0 ? raw_place(owner(edge), at) : at) = value;
  }
  // The same of a chunk, whose positives may have several owners.
  FRUGAL_DEVICE void put_for_chunk(std::int64_t chunk, float* at, float value) const {
    if (shares.ranks == 0) {
      *at = value;
      return;
    }
    const int last = owner((chunk + 1) * batch.chunk_size - 1);
    for (int each = owner(chunk * batch.chunk_size); each <= last; ++each) *raw_place(each, at) = value;
  }
  // Stores four floats of weights or query states, for all ranks.
  FRUGAL_DEVICE void give(float* at, float4 value) const {
    *reinterpret_cast<float4*>(at) = value;
#pragma unroll
    for (int m = 0; m < kMostRanks - 1; ++m)
      if (m < mirrors.count) *reinterpret_cast<float4*>(mirrors.at[m] + (at - mirrors.own)) = value;
  }
  // Where a mean square goes that this rank has at `at`: for mirror -1 there, else to another rank's memory.
  FRUGAL_DEVICE float* square_place(int mirror, float* at) const {
    return mirror < 0 ? at : square_mirrors.at[mirror] + (at - square_mirrors.own);
  }
  // Stores a mean square, for all ranks that read it in their own memory.
  FRUGAL_DEVICE void give_square(float* at, float value) const {
    for (int m = -1; m < square_mirrors.count; ++m) *square_place(m, at) = value;
  }
  // Where column p of a row lies in one that is cut into padded parts.
  FRUGAL_DEVICE std::int64_t place(std::int64_t p) const { return p < part ? p : p - part + part_stride; }

  FRUGAL_DEVICE Operand queries(std::int64_t chunk, float* rows) const {
    return {rows + chunk * batch.chunk_size * stride, static_cast<int>(stride), static_cast<int>(part_stride),
            static_cast<int>(batch.chunk_size)};
  }
  FRUGAL_DEVICE Operand negatives(std::int64_t chunk) const {
    return {negative + chunk * columns * stride, static_cast<int>(stride), static_cast<int>(part_stride),
            static_cast<int>(columns)};
  }
  FRUGAL_DEVICE Operand weights(std::int64_t chunk) const {
    return {weight + chunk * batch.chunk_size * weight_stride, static_cast<int>(weight_stride),
            static_cast<int>(weight_stride), static_cast<int>(batch.chunk_size)};
  }
};

inline std::int64_t pieces(std::int64_t count, std::int64_t size) { return (count + size - 1) / size; }

inline Step make_step(const ModelSpec& model, int parts, const LossSpec& loss, bool degree_negatives,
                      const DeviceBatch& batch) {
  constexpr auto padded = [](std::int64_t count) { return pieces(count, kLanes) * kLanes; };
  Step s{};
  s.model = {model.entity_dim, model.relation_dim, model.gamma, model.embedding_range / static_cast<float>(M_PI)};
  s.loss = loss;
  s.regularized = loss.regularized();
  s.batch = batch;
  s.chunks = batch.positives / batch.chunk_size;
  s.own = degree_negatives ? batch.chunk_size : 0;
  s.columns = s.own + batch.negatives_per_chunk;
  s.part = model.entity_dim / parts;
  s.part_stride = padded(s.part);
  s.stride = parts * s.part_stride;
  s.edge_stride = padded(model.entity_dim);
  s.weight_stride = padded(s.columns);
  s.entity_power = sum_level_power(model.entity_dim / kSumPartials);
  s.relation_power = sum_level_power(model.relation_dim / kSumPartials);
  return s;
}

// Raw values that are sums over columns, all in one piece from `at` on, those of pairs first. Returns its floats.
inline std::int64_t lay_out_exchanged(Step& s, float* at) {
  std::int64_t used = 0;
  const auto take = [&](std::int64_t floats) {
    float* const begin = at ? at + used : nullptr;
    used += pieces(floats, kLanes) * kLanes;
    return begin;
  };
  s.comparison = take(s.batch.positives * s.weight_stride);
  s.positive_score = take(s.batch.positives);
  s.query_square = take(s.batch.positives);
  s.negative_square = take(s.chunks * s.weight_stride);
  return used;
}
inline std::int64_t exchanged_floats(Step s) { return lay_out_exchanged(s, nullptr); }

// For a rank that has some columns: what others write or read is in the exchange.
inline void lay_out_shares(Step& s, const DeviceExchange& exchange) {
  s.shares.ranks = exchange.ranks;
  s.shares.rank = exchange.rank;
  s.shares.rows = static_cast<std::uint32_t>(share_rows(s.batch.positives, exchange.ranks));
  s.shares.own = exchange.part[exchange.rank];
  std::copy_n(exchange.to, kMostRanks, s.shares.to);
  std::copy_n(exchange.part, kMostRanks, s.shares.part);
  lay_out_exchanged(s, exchange.part[exchange.rank]);
  s.mirrors = exchange.weights;
  s.weight = exchange.weights.own;
  s.query_states = reinterpret_cast<QueryState*>(s.weight + s.batch.positives * s.weight_stride);
  if (exchange.near) s.square_mirrors = exchange.squares.own;
  s.out.positive_square = exchange.squares.own.own;
  s.out.negative_square = s.out.positive_square + s.batch.most_entities;
  s.out.relation_square = s.out.negative_square + s.chunks * s.batch.negatives_per_chunk;
}

// Cuts the workspace; with a null workspace only counts its floats.
inline std::int64_t lay_out(Step& s) {
  std::int64_t used = 0;
  const auto take = [&](std::int64_t floats) {
    float* at = s.out.workspace ? s.out.workspace + used : nullptr;
    used += pieces(floats, kLanes) * kLanes;
    return at;
  };
  const std::int64_t positives = s.batch.positives, sampled = s.chunks * s.batch.negatives_per_chunk;
  for (float** each : {&s.query, &s.query_gradient}) *each = take(positives * s.stride);
  s.negative = take(s.chunks * s.columns * s.stride);
  s.own_gradient = take(s.chunks * s.own * s.stride);
  lay_out_exchanged(s, take(exchanged_floats(s)));
  s.weight = s.comparison;
  s.query_states = reinterpret_cast<QueryState*>(take(positives * kQueryStateFloats));
  s.edge_gradient = take(2 * positives * s.edge_stride);
  s.relation_regularization = take(positives);
  s.entity_regularization = take(2 * positives + sampled);
  return used;
}

}  // namespace frugal::cuda
