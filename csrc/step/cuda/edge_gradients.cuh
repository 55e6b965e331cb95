// Gradients of the rows of edges, made by the tiles of gradients of queries (pair_passes.cuh): for columnwise programs.
#pragma once

#include <cuda_pipeline.h>

#include <cstddef>
#include <cstdint>

#include "models/columnwise.h"
#include "step/cuda/device_penalty.cuh"
#include "step/cuda/device_step.cuh"

namespace frugal::cuda {

// In the place of QueryGradients: the gradients of queries themselves are stored nowhere.
template <typename Program>
class EdgeGradients {
  // The part of its edge that a row of a tile takes: the beginning of QueryState, and slots. In shared memory before
  // the tile is folded, so that rows can be loaded as soon as it has been.
  struct alignas(16) Edge {
    float saved, score_gradient, weight_sum, normal_range;
    std::int32_t fixed, relation, corrupted, unused;
  };
  static_assert(offsetof(QueryState, weight_sum) == offsetof(Edge, weight_sum));

 public:
  static constexpr int kFloatsOfRow = sizeof(Edge) / sizeof(float);
  struct Words {
    float4 fixed, relation, corrupted;
  };

  // A chunk's own negatives add gradients to rows of edges that other tiles make.
  static bool can_take(const Step& s) { return s.own == 0 && s.aligned_edges; }

  static __device__ void start(const Step& s, int chunk, int first_row, int rows, float* shared) {
    const DeviceBatch& batch = s.batch;
    for (int i = threadIdx.x; i < rows && first_row + i < batch.chunk_size; i += blockDim.x) {
      const std::int64_t edge = chunk * batch.chunk_size + first_row + i;
      Edge& to = reinterpret_cast<Edge*>(shared)[i];
      __pipeline_memcpy_async(&to.saved, s.query_states + edge, 16);
      const auto copy = [&](std::int32_t& slot, const std::int32_t* slots) {
        __pipeline_memcpy_async(&slot, slots + edge, sizeof(std::int32_t));
      };
      copy(to.fixed, batch.corrupt_head ? batch.tail_slot : batch.head_slot);
      copy(to.relation, batch.relation_slot);
      copy(to.corrupted, batch.corrupt_head ? batch.head_slot : batch.tail_slot);
    }
  }
  __device__ EdgeGradients(const Step& s, int chunk, int first_row, const float* shared)
      : s_(s),
        edges_(reinterpret_cast<const Edge*>(shared)),
        first_row_(first_row),
        edge_stride_(static_cast<int>(s.edge_stride)),
        relation_stride_(static_cast<int>(s.out.relation.stride)) {
    const std::int64_t first_edge = chunk * s.batch.chunk_size;
    float *const heads = s.edge_gradient + first_edge * edge_stride_,
        *const tails = heads + s.batch.positives * edge_stride_;
    fixed_ = s.batch.corrupt_head ? tails : heads;
    corrupted_ = s.batch.corrupt_head ? heads : tails;
    relation_ = s.out.relation.data + first_edge * relation_stride_;
  }
  __device__ float weight_sum(int row) const { return edges_[row - first_row_].weight_sum; }
  __device__ Words words(int row, int column, const float*) const {
    const Edge& edge = edges_[row - first_row_];
    const int last = static_cast<int>(s_.part) - 4, at = column < last ? column : last;
    const auto load = [&](const DeviceRows& rows, std::int32_t slot) {
      const float* const row = rows.data + static_cast<std::int64_t>(slot) * static_cast<int>(rows.stride);
      return *reinterpret_cast<const float4*>(row + at);
    };
    return {load(s_.entities, edge.fixed), load(s_.relations, edge.relation), load(s_.entities, edge.corrupted)};
  }
  // Made once more: to load it with the words would take more registers.
  __device__ float4 own_of(const Words& from) const {
    const auto query = [&](float fixed, float relation) {
      return Program::query({fixed}, {relation}, s_.batch.corrupt_head).x;
    };
    return {query(from.fixed.x, from.relation.x), query(from.fixed.y, from.relation.y),
            query(from.fixed.z, from.relation.z), query(from.fixed.w, from.relation.w)};
  }
  // q: of the query's gradient.
  __device__ void write(int row, int column, float4 q, const Words& from) const {
    const Edge& edge = edges_[row - first_row_];
    const Vec factor = {Program::factor(edge.saved, edge.score_gradient)};
    const auto gradient = [&](float q, float fixed, float relation, float corrupted) {
      return Program::gradient({{fixed}, {relation}, {corrupted}}, {q}, factor, s_.batch.corrupt_head);
    };
    const SideColumns x = gradient(q.x, from.fixed.x, from.relation.x, from.corrupted.x);
    const SideColumns y = gradient(q.y, from.fixed.y, from.relation.y, from.corrupted.y);
    const SideColumns z = gradient(q.z, from.fixed.z, from.relation.z, from.corrupted.z);
    const SideColumns w = gradient(q.w, from.fixed.w, from.relation.w, from.corrupted.w);
    const auto store = [](float* to, float4 values) { *reinterpret_cast<float4*>(to) = values; };
    store(fixed_ + row * edge_stride_ + column, {x.fixed.x, y.fixed.x, z.fixed.x, w.fixed.x});
    store(corrupted_ + row * edge_stride_ + column, {x.corrupted.x, y.corrupted.x, z.corrupted.x, w.corrupted.x});
    float4 relation = {x.relation.x, y.relation.x, z.relation.x, w.relation.x};
    AddedPenalty(s_.loss, s_.regularized).add(relation, from.relation);
    store(relation_ + row * relation_stride_ + column, relation);
  }

 private:
  const Step& s_;
  const Edge* const edges_;
  const int first_row_, edge_stride_, relation_stride_;
  float *fixed_, *corrupted_, *relation_;  // rows of the chunk
};

}  // namespace frugal::cuda
