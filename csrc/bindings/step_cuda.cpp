#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>

#include <optional>

#include "bindings/arrays.h"
#include "bindings/bindings.h"
#include "step/cuda/batch_indices.h"
#include "step/cuda/gradient_kernels.h"
#include "step/train_step.h"

namespace frugal {
namespace {

namespace nb = nanobind;
using nb::literals::operator""_a;
using Indices = nb::ndarray<const std::int32_t, nb::ndim<1>, nb::c_contig, nb::device::cuda>;
using Weights = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cuda>;
using Matrix = nb::ndarray<float, nb::ndim<2>, nb::device::cuda>;
using Floats = nb::ndarray<float, nb::ndim<1>, nb::c_contig, nb::device::cuda>;
using Sums = nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cuda>;

BatchSizes sizes_of(const Batch& batch) { return {batch.positives(), batch.chunk_size, batch.negatives_per_chunk}; }

cuda::DeviceRows rows(const Matrix& matrix, std::int64_t least_rows, std::int64_t least_columns, const char* what) {
  if (static_cast<std::int64_t>(matrix.shape(0)) < least_rows ||
      static_cast<std::int64_t>(matrix.shape(1)) < least_columns || matrix.stride(1) != 1)
    throw std::invalid_argument(std::string(what) + " needs at least " + std::to_string(least_rows) + " rows of " +
                                std::to_string(least_columns) + " contiguous floats");
  return {matrix.data(), matrix.stride(0)};
}

}  // namespace

void bind_step_cuda(nb::module_& module) {
  module.def(
      "pack_batch",
      [](const Batch& batch) {
        const BatchIndices indices(sizes_of(batch));
        std::vector<std::int32_t> packed(indices.size);
        indices.pack(batch, packed.data());
        return to_numpy(std::move(packed));
      },
      "batch"_a,
      "All indices of a batch in one int32 array, whose size depends on the flags alone, to be copied to the device.");

  module.def(
      "cuda_workspace_floats",
      [](const TrainStep& step, const Batch& batch) {
        return cuda::workspace_floats(step.model().spec(), step.degree_negatives(), batch.positives(), batch.chunk_size,
                                      batch.negatives_per_chunk);
      },
      "step"_a, "batch"_a, "Floats of zeroed device memory that cuda_gradients needs for batches of this size.");

  module.def(
      "cuda_gradients",
      [](const TrainStep& step, const Batch& batch, const Indices& packed, const std::optional<Weights>& weight,
         const Matrix& entities, const Matrix& relations, const Matrix& positive, const Matrix& negative,
         const Matrix& relation, const Sums& losses, const Floats& workspace, std::uintptr_t stream) {
        const ModelSpec& spec = step.model().spec();
        const BatchSizes sizes = sizes_of(batch);
        const BatchIndices at(sizes);
        const auto needed = cuda::workspace_floats(spec, step.degree_negatives(), sizes.positives, sizes.chunk_size,
                                                   sizes.negatives_per_chunk);
        if (static_cast<std::int64_t>(packed.shape(0)) != at.size || losses.shape(0) != 4 ||
            static_cast<std::int64_t>(workspace.shape(0)) < needed ||
            (weight && static_cast<std::int64_t>(weight->shape(0)) != sizes.positives))
          throw std::invalid_argument("indices, weights, losses or workspace have another size than the batch needs");
        const std::int32_t* i = packed.data();
        const cuda::DeviceBatch device{batch.corrupt_head,
                                       sizes.positives,
                                       sizes.chunk_size,
                                       sizes.negatives_per_chunk,
                                       sizes.most_entities(),
                                       sizes.most_relations(),
                                       i + at.counts,
                                       i + at.head_slot,
                                       i + at.tail_slot,
                                       i + at.relation_slot,
                                       i + at.negative_slot,
                                       i + at.positive_offset,
                                       i + at.positive_occurrence,
                                       i + at.negative_offset,
                                       i + at.negative_occurrence,
                                       i + at.relation_offset,
                                       weight ? weight->data() : nullptr};
        const auto distinct = static_cast<std::int64_t>(batch.entities.size());
        const cuda::DeviceGradients out{rows(positive, distinct, spec.entity_dim, "positive"),
                                        rows(negative, sizes.negatives(), spec.entity_dim, "negative"),
                                        rows(relation, sizes.positives, spec.relation_dim, "relation"), losses.data(),
                                        workspace.data()};
        cuda::compute_gradients(
            spec, step.loss(), step.degree_negatives(), device, rows(entities, distinct, spec.entity_dim, "entities"),
            rows(relations, static_cast<std::int64_t>(batch.relations.size()), spec.relation_dim, "relations"), out,
            stream);
      },
      "step"_a, "batch"_a, "packed"_a, "weight"_a.none(), "entities"_a, "relations"_a, "positive"_a, "negative"_a,
      "relation"_a, "losses"_a, "workspace"_a, "stream"_a = 0,
      "Gradients of a batch on a CUDA device, regularization included; only enqueues. packed: pack_batch(batch) on the "
      "device. "
      "entities, relations: rows of the batch's distinct ids. Writes positive (U, entity_dim), where a row is among "
      "the "
      "positives, negative (N, entity_dim), relation (B, relation_dim); adds to losses (4,) float64: positive, "
      "negative, "
      "regularization, total.");
}

}  // namespace frugal
