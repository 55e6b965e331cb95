#include "step/block_gradients.h"

#include <algorithm>
#include <numeric>

#include "step/regularization.h"
#include "step/shape.h"

namespace frugal {
namespace {

using FRUGAL_ISA::regularize;

// The part of a batch that a GradientPass reads. Ids are of no use to it; slots stand for them.
Batch unpack(const cuda::DeviceBatch& packed) {
  Batch batch;
  batch.corrupt_head = packed.corrupt_head;
  batch.chunk_size = packed.chunk_size;
  batch.negatives_per_chunk = packed.negatives_per_chunk;
  const std::int64_t positives = packed.positives,
                     negatives = positives / packed.chunk_size * packed.negatives_per_chunk;
  batch.head_slot.assign(packed.head_slot, packed.head_slot + positives);
  batch.tail_slot.assign(packed.tail_slot, packed.tail_slot + positives);
  batch.relation_slot.assign(packed.relation_slot, packed.relation_slot + positives);
  batch.negative_slot.assign(packed.negative_slot, packed.negative_slot + negatives);
  batch.head.assign(batch.head_slot.begin(), batch.head_slot.end());
  batch.negative.assign(batch.negative_slot.begin(), batch.negative_slot.end());
  if (packed.weight) batch.weight.assign(packed.weight, packed.weight + positives);
  batch.relation_occurrence.resize(batch.relation_slot.size());
  std::iota(batch.relation_occurrence.begin(), batch.relation_occurrence.end(), 0);
  std::ranges::stable_sort(batch.relation_occurrence, {}, [&](std::int32_t edge) { return batch.relation_slot[edge]; });
  return batch;
}

float* row(const cuda::DeviceRows& rows, std::int64_t i) { return rows.data + i * rows.stride; }

std::vector<const float*> pointers(const cuda::DeviceRows& rows, std::int64_t count) {
  std::vector<const float*> found(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) found[i] = row(rows, i);
  return found;
}

}  // namespace

void compute_gradients(TrainStep& step, const cuda::DeviceBatch& packed, cuda::DeviceRows entities,
                       cuda::DeviceRows relations, const cuda::DeviceGradients& out, ColumnRanks* ranks) {
  const Batch batch = unpack(packed);
  const std::int64_t entity_count = packed.counts[0], relation_count = packed.counts[1], positives = packed.positives;
  const std::int64_t dim = step.model().spec().entity_dim, relation_dim = step.model().spec().relation_dim;
  const auto entity_rows = pointers(entities, entity_count), relation_rows = pointers(relations, relation_count);
  const StepLosses losses = step.differentiate(batch, {{entity_rows.data()}, {relation_rows.data()}, {}}, ranks);

  const LossSpec& loss = step.loss();
  const EdgeGradients& of_edges = step.gradients();
  double regularization = 0.0;
  std::vector<float> penalty(static_cast<std::size_t>(dim));
  for (std::int64_t u = 0; u < entity_count; ++u) {
    const std::int32_t first = packed.positive_offset[u], last = packed.positive_offset[u + 1];
    const std::int32_t first_negative = packed.negative_offset[u], last_negative = packed.negative_offset[u + 1];
    if (loss.regularized())
      regularization += ((last > first) + (last_negative - first_negative)) *
                        static_cast<double>(regularize(loss, entity_rows[u], dim, penalty.data()));
    if (last > first) {
      float* sum = row(out.positive, u);
      const auto end_of = [&](std::int32_t o) {
        const std::int64_t end = packed.positive_occurrence[o];
        return end < positives ? of_edges.head[end] : of_edges.tail[end - positives];
      };
      std::copy_n(end_of(first), dim, sum);
      for (std::int32_t o = first + 1; o < last; ++o) add_to(sum, end_of(o), dim);
      if (loss.regularized()) add_to(sum, penalty.data(), dim);
    }
    for (std::int32_t o = first_negative; o < last_negative; ++o) {
      const std::int32_t i = packed.negative_occurrence[o];
      std::copy_n(of_edges.negative[i], dim, row(out.negative, i));
      if (loss.regularized()) add_to(row(out.negative, i), penalty.data(), dim);
    }
  }
  penalty.resize(static_cast<std::size_t>(relation_dim));
  const std::int32_t* edge = batch.relation_occurrence.data();
  for (std::int64_t r = 0; r < relation_count; ++r) {
    const std::int32_t edges = packed.relation_offset[r + 1] - packed.relation_offset[r];
    if (loss.regularized())
      regularization += edges * static_cast<double>(regularize(loss, relation_rows[r], relation_dim, penalty.data()));
    for (std::int32_t i = 0; i < edges; ++i, ++edge) {
      step.model().expand(of_edges.relation[*edge], 0, relation_dim, row(out.relation, *edge));
      if (loss.regularized()) add_to(row(out.relation, *edge), penalty.data(), relation_dim);
    }
  }
  regularization *= loss.regularization_coefficient;
  out.losses[0] += losses.positive;
  out.losses[1] += losses.negative;
  out.losses[2] += regularization;
  out.losses[3] += losses.total + regularization;
}

}  // namespace frugal
