#include "step/step_block.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <optional>
#include <tuple>

#include "bindings/bindings.h"
#include "bindings/exchange.h"
#include "bindings/named.h"
#include "bindings/row_arrays.h"
#include "rows/cpu/plan_kernels.h"
#include "step/batch_packer.h"
#include "step/block_gradients.h"
#include "step/shape.h"

namespace frugal::bindings::step_block {
namespace {

using HostBytes = nb::ndarray<std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
// On any device: the block's decides what runs.
using Bytes = nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig>;
using Matrix = nb::ndarray<float, nb::ndim<2>>;
using Sums = nb::ndarray<double, nb::ndim<1>, nb::c_contig>;
using Table = std::tuple<std::string, std::int64_t, std::int64_t, bool>;
using Reads = std::optional<std::tuple<const RowTable*, Vector<std::int64_t>, Vector<std::int32_t>, std::string>>;
using Squares = std::optional<std::tuple<Floats, Floats, Floats>>;

cuda::DeviceRows rows(const Matrix& matrix, std::int64_t least_rows, std::int64_t least_columns, const char* what) {
  if (static_cast<std::int64_t>(matrix.shape(0)) < least_rows ||
      static_cast<std::int64_t>(matrix.shape(1)) < least_columns || matrix.stride(1) != 1)
    throw std::invalid_argument(std::string(what) + " needs at least " + std::to_string(least_rows) + " rows of " +
                                std::to_string(least_columns) + " contiguous floats");
  return {matrix.data(), matrix.stride(0)};
}

std::int64_t workspace_floats(const TrainStep& step, const StepBlock& block) {
  const BatchSizes& sizes = block.sizes();
  return cuda::workspace_floats(step.model().spec(), step.degree_negatives(), sizes.positives, sizes.chunk_size,
                                sizes.negatives_per_chunk);
}

// Of the records of one table; none where they have been gathered.
cuda::RecordReads reads(const Reads& given, const Matrix& records) {
  if (!given) return {};
  const auto& [table, rows, source, part] = *given;
  require(table != nullptr && table->memory.stride == records.stride(0),
          "there is a table to read, whose rows are as far apart as the records");
  cuda::RecordReads found{table->memory, bindings::reads_of(rows, source, records)};
  found.memory.state = std::min<std::int64_t>(found.memory.state, 1);  // rows with more are updated where they lie
  found.reads.part = bindings::part_of(part);
  if (!on_cuda(records)) check_reads(found.memory, table->extent, found.reads);
  return found;
}

void compute(TrainStep& step, const StepBlock& layout, bool corrupt_head, const Bytes& block, const Matrix& entities,
             const Matrix& relations, const Reads& entity_reads, const Reads& relation_reads, const Matrix& positive,
             const Matrix& negative, const Matrix& relation, const Squares& squares, const Sums& losses,
             const std::optional<Floats>& workspace, std::uintptr_t stream, Exchange* exchange,
             const std::string& products) {
  const ModelSpec& spec = step.model().spec();
  const BatchSizes& sizes = layout.sizes();
  const std::int64_t most_entities = layout.tables()[0].rows, most_relations = layout.tables()[1].rows;
  require(block.size() == layout.bytes() && losses.size() == 4, "the block or the losses have another size");
  const cuda::DeviceBatch batch = layout.batch(corrupt_head, reinterpret_cast<const std::byte*>(block.data()));
  const cuda::DeviceRows from = rows(entities, most_entities, spec.entity_dim, "entities"),
                         of = rows(relations, most_relations, spec.relation_dim, "relations");
  const cuda::RecordReads of_entities = reads(entity_reads, entities), of_relations = reads(relation_reads, relations);
  cuda::DeviceGradients out{rows(positive, most_entities, spec.entity_dim, "positive"),
                            rows(negative, sizes.negatives(), spec.entity_dim, "negative"),
                            rows(relation, sizes.positives, spec.relation_dim, "relation"), losses.data(),
                            workspace ? workspace->data() : nullptr};
  if (!on_cuda(block)) {
    const nb::gil_scoped_release release;
    cpu::gather(of_entities.memory, of_entities.reads, from.data);
    cpu::gather(of_relations.memory, of_relations.reads, of.data);
    return compute_gradients(step, batch, from, of, out, exchange);
  }
  require(workspace && static_cast<std::int64_t>(workspace->size()) >= workspace_floats(step, layout),
          "the workspace is too small");
  require(squares.has_value() != (exchange != nullptr),
          "on a device the mean squares of gradients are wanted, but of ranks the exchange has them");
  if (squares) {
    const auto& [of_positive, of_negative, of_relation] = *squares;
    require(static_cast<std::int64_t>(of_positive.size()) >= most_entities &&
                static_cast<std::int64_t>(of_negative.size()) >= sizes.negatives() &&
                static_cast<std::int64_t>(of_relation.size()) >= sizes.positives,
            "each gradient needs room for its mean square");
    out.positive_square = of_positive.data(), out.negative_square = of_negative.data();
    out.relation_square = of_relation.data();
  }
  using cuda::Products;
  const auto precision = named<Products>(
      {{"fp32", Products::kFloat32}, {"tf32x3", Products::kTf32x3}, {"tf32", Products::kTf32}}, products, "product");
  cuda::compute_gradients(spec, step.loss(), step.degree_negatives(), batch, from, of, of_entities, of_relations, out,
                          precision, exchange ? &exchange->device() : nullptr, stream);
}

}  // namespace

void bind(nb::module_& module) {
  nb::class_<StepBlock>(module, "StepBlock",
                        "The layout of what a step on a device is told of its batch, in one block of memory. See "
                        "csrc/step/step_block.h.")
      .def(
          "__init__",
          [](StepBlock* self, std::int64_t positives, std::int64_t chunk_size, std::int64_t negatives_per_chunk,
             bool weighted, const std::vector<Table>& tables) {
            std::vector<BlockTable> described;
            for (const auto& [name, rows, scratch, planned] : tables)
              described.push_back({name, rows, scratch, planned});
            new (self) StepBlock({positives, chunk_size, negatives_per_chunk, weighted}, std::move(described));
          },
          "positives"_a, "chunk_size"_a, "negatives_per_chunk"_a, "weighted"_a, "tables"_a,
          "tables: (name, rows of a step at most, row for padding, whether a plan says where rows are) of entities, "
          "relations and, if there are any, projections.")
      .def_prop_ro("bytes", &StepBlock::bytes)
      .def_prop_ro(
          "table_rows",
          [](const StepBlock& self) {
            std::vector<std::int64_t> rows;
            for (const BlockTable& table : self.tables()) rows.push_back(table.rows);
            return rows;
          },
          "Rows of a step by table, with padding.")
      .def_prop_ro(
          "fields",
          [](const StepBlock& self) {
            nb::list fields;
            for (const StepBlock::Field& field : self.fields())
              fields.append(nb::make_tuple(field.name, field.dtype, field.begin, field.length));
            return fields;
          },
          "(name, dtype, first byte, length) of each array of a block.")
      .def(
          "pack",
          [](const StepBlock& self, const Batch& batch, const HostBytes& block) {
            require(block.size() == self.bytes(), "the block has another size than its layout");
            self.pack(batch, reinterpret_cast<std::byte*>(block.data()));
          },
          "batch"_a, "block"_a, "Fill block (bytes,) uint8. ValueError for a batch of other sizes.");

  nb::class_<BatchPacker>(module, "BatchPacker",
                          "Packs batches when they are made, by the threads that make them. See "
                          "csrc/step/batch_packer.h.")
      .def(
          "__init__",
          [](BatchPacker* self, const StepBlock& layout, const HostBytes& memory) {
            const auto blocks = static_cast<std::int64_t>(memory.size() / layout.bytes());
            new (self) BatchPacker(layout, reinterpret_cast<std::byte*>(memory.data()), blocks);
          },
          "layout"_a, "memory"_a, nb::keep_alive<1, 3>(),
          "memory (blocks * layout.bytes,) uint8: where they are packed.")
      .def(
          "block_of", &BatchPacker::block_of, "batch"_a,
          "The number of the block in which the batch is packed, which is its own while the batch is there; -1: none.");

  module.def(
      "exchanged_floats",
      [](const TrainStep& step, std::int64_t positives, std::int64_t chunk_size, std::int64_t negatives_per_chunk) {
        const std::int64_t own = step.degree_negatives() ? chunk_size : 0, chunks = positives / chunk_size;
        const std::int64_t columns = (own + negatives_per_chunk + kVector - 1) / kVector * kVector;
        const std::int64_t scores =
            (positives + chunks) * columns + 2 * ((positives + kVector - 1) / kVector * kVector) + chunks * kVector;
        return nb::make_tuple(scores, positives * (columns + cuda::kQueryStateFloats));
      },
      "step"_a, "positives"_a, "chunk_size"_a, "negatives_per_chunk"_a,
      "Floats that ranks exchange in a step of such a batch: of raw scores, and of what becomes of them.");
  module.def("workspace_floats", &workspace_floats, "step"_a, "block"_a,
             "Floats of zeroed device memory that compute_gradients needs on a CUDA device.");
  module.def(
      "compute_gradients", &compute, "step"_a, "layout"_a, "corrupt_head"_a, "block"_a, "entities"_a, "relations"_a,
      "entity_reads"_a.none(), "relation_reads"_a.none(), "positive"_a, "negative"_a, "relation"_a,
      "squares"_a.none(), "losses"_a, "workspace"_a.none(), "stream"_a = 0, "exchange"_a.none() = nb::none(),
      "products"_a = "fp32",
      "Gradients of a packed batch, regularization included. entities, relations: the records of its distinct rows; "
      "rows that entity_reads and relation_reads name (table, rows, source, part: see prepare_gather) are "
      "gathered first. Writes positive (U, entity_dim), where a row is among the positives, negative (N, entity_dim), "
      "relation (B, relation_dim), and on a CUDA device the mean squares of their rows, squares: (U,), (N,), (B,), or "
      "of ranks those of its own columns in the exchange, one array behind the other; "
      "adds to losses (4,) float64: positive, negative, regularization, total. Runs where `block` lies, with the same "
      "bits everywhere but in the losses; only enqueues on a CUDA device. exchange: where ranks have columns of all "
      "rows. products: fp32, or on a CUDA device tf32x3 or tf32, which are rounded and have other bits.");
}

}  // namespace frugal::bindings::step_block
