// What every kernel of a step needs, and how the workspace is cut.
#pragma once

#include "linalg/simd.h"
#include "models/row_model.h"
#include "models/similarity/similarity.h"
#include "optim/mean_square.h"
#include "step/cuda/gradient_kernels.h"
#include "step/cuda/tiles.cuh"

namespace frugal::cuda {

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
  bool aligned_out;  // whether the rows of out.positive and out.negative allow for stores of 16 bytes
  int entity_power, relation_power;  // sum_level_power
  // Per chunk: the positives' own side, if negatives include it, then the sampled ones.
  std::int64_t chunks, own, columns;
  std::int64_t part, part_stride, stride;  // floats of a part, to the next part, to the next row
  std::int64_t leaf_stride, weight_stride;
  float *query, *query_gradient;                           // (B, stride)
  float* negative;                                         // (chunks * columns, stride): copies
  float* own_gradient;                                     // (B, stride): as negatives
  float* weight;                                           // (B, weight_stride): comparisons, then weights of pairs
  float* leaf;                                             // (2 B, leaf_stride): gradients of heads, then of tails
  float *positive_score, *memo, *score_gradient;           // (B,): the first as Program::raw has it
  float *query_square, *weight_sum;                        // (B,): L2 alone
  float* negative_square;                                  // (chunks, weight_stride): L2 alone
  float *positive_loss, *negative_loss;                    // (B,) times edge importance
  float* plain;                                            // (B,) moduli alone: 1 if a query's weights are plain, or 0
  Mirrors mirrors;                                         // of what ranks exchange of raw values
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
  // Stores a raw value, or four.
  FRUGAL_DEVICE void put(float* at, float value) const {
    *at = value;
#pragma unroll
    for (int m = 0; m < kMostRanks - 1; ++m)
      if (m < mirrors.count) mirrors.at[m][at - mirrors.own] = value;
  }
  FRUGAL_DEVICE void put(float* at, float4 value) const {
    *reinterpret_cast<float4*>(at) = value;
#pragma unroll
    for (int m = 0; m < kMostRanks - 1; ++m)
      if (m < mirrors.count) *reinterpret_cast<float4*>(mirrors.at[m] + (at - mirrors.own)) = value;
  }
  // Behind what a thread has put: other devices see it before a word that a later kernel writes.
  FRUGAL_DEVICE void finish_puts() const {
    if (mirrors.count > 0) __threadfence_system();
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
  s.leaf_stride = padded(model.entity_dim);
  s.weight_stride = padded(s.columns);
  s.entity_power = sum_level_power(model.entity_dim / kSumPartials);
  s.relation_power = sum_level_power(model.relation_dim / kSumPartials);
  return s;
}

// Raw values that are sums over columns, all in one piece from `at` on, `weight` first. Returns its floats.
inline std::int64_t lay_out_exchanged(Step& s, float* at) {
  std::int64_t used = 0;
  const auto take = [&](std::int64_t floats) {
    float* const begin = at ? at + used : nullptr;
    used += pieces(floats, kLanes) * kLanes;
    return begin;
  };
  s.weight = take(s.batch.positives * s.weight_stride);
  s.positive_score = take(s.batch.positives);
  s.query_square = take(s.batch.positives);
  s.negative_square = take(s.chunks * s.weight_stride);
  return used;
}
inline std::int64_t exchanged_floats(Step s) { return lay_out_exchanged(s, nullptr); }

// What a rank that has some columns computes before it meets the others: into its part of the exchange.
inline Step own_part(const Step& s, const DeviceExchange& exchange) {
  Step own = s;
  lay_out_exchanged(own, exchange.own());
  own.out.positive_square = exchange.own() + exchange.second;
  own.out.negative_square = own.out.positive_square + s.batch.most_entities;
  own.out.relation_square = own.out.negative_square + s.chunks * s.batch.negatives_per_chunk;
  own.mirrors = exchange.mirrors;
  return own;
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
  s.leaf = take(2 * positives * s.leaf_stride);
  for (float** each : {&s.memo, &s.score_gradient, &s.weight_sum, &s.positive_loss, &s.negative_loss,
                       &s.plain, &s.relation_regularization})
    *each = take(positives);
  s.entity_regularization = take(2 * positives + sampled);
  return used;
}

}  // namespace frugal::cuda
