#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>

#include "bindings/bindings.h"
#include "sampler/batch_stream.h"
#include "sampler/sampler.h"
#include "sampler/sampler.h"
#include "sampler/shared_batches.h"
#include "step/batch_packer.h"

namespace frugal::bindings::sampler {
namespace {

using AnyIds = nb::ndarray<nb::ro, nb::ndim<1>, nb::device::cpu>;
using Ids = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Weights = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

IdArray view(const AnyIds& ids, const char* what) {
  const auto size = static_cast<std::int64_t>(ids.shape(0));
  if (ids.dtype() == nb::dtype<std::int32_t>()) {
    return {static_cast<const std::int32_t*>(ids.data()), size, ids.stride(0)};
  }
  if (ids.dtype() == nb::dtype<std::int64_t>()) {
    return {static_cast<const std::int64_t*>(ids.data()), size, ids.stride(0)};
  }
  throw std::invalid_argument(std::string(what) + " must be int32 or int64");
}

std::vector<std::int64_t> copy(const Ids& ids) { return {ids.data(), ids.data() + ids.shape(0)}; }

std::shared_ptr<Batch> batch_of(const BatchSource& source, std::int64_t step) {
  auto batch = std::make_shared<Batch>();
  auto scratch = source.scratch();
  source.sample(step, *batch, scratch);
  return batch;
}

// A read-only property that shows a vector of the batch. The view keeps the batch, and so its memory, alive.
template <auto Member>
auto array() {
  return [](nb::handle self) {
    const auto& values = nb::cast<const Batch&>(self).*Member;
    using T = typename std::decay_t<decltype(values)>::value_type;
    return nb::ndarray<nb::numpy, const T, nb::ndim<1>>(values.data(), {values.size()}, self);
  };
}

}  // namespace

void bind(nb::module_& module) {
  nb::class_<Batch>(
      module, "Batch",
      "What one rank trains on in one step. Arrays are read-only views that stay valid, and keep the batch "
      "alive, as long as they are referenced. B positives, N negatives, U entities, R relations.")
      .def_ro("step", &Batch::step)
      .def_ro("corrupt_head", &Batch::corrupt_head, "Whether the negatives replace heads (else tails).")
      .def_ro("chunk_size", &Batch::chunk_size)
      .def_ro("negatives_per_chunk", &Batch::negatives_per_chunk)
      .def_prop_ro("chunks", &Batch::chunks)
      .def_prop_ro("head", array<&Batch::head>(), "(B,) int64 ids")
      .def_prop_ro("relation", array<&Batch::relation>(), "(B,) int64 ids")
      .def_prop_ro("tail", array<&Batch::tail>(), "(B,) int64 ids")
      .def_prop_ro("negative", array<&Batch::negative>(), "(N,) int64 entity ids, chunk after chunk")
      .def_prop_ro("weighted", [](const Batch& batch) { return !batch.weight.empty(); })
      .def_prop_ro("weight", array<&Batch::weight>(), "(B,) float32 edge importance, or (0,)")
      .def_prop_ro("entities", array<&Batch::entities>(), "(U,) int64 distinct ids, ascending")
      .def_prop_ro("head_slot", array<&Batch::head_slot>(), "(B,) int32 index into entities")
      .def_prop_ro("tail_slot", array<&Batch::tail_slot>(), "(B,) int32 index into entities")
      .def_prop_ro("negative_slot", array<&Batch::negative_slot>(), "(N,) int32 index into entities")
      .def_prop_ro("relations", array<&Batch::relations>(), "(R,) int64 distinct ids, ascending")
      .def_prop_ro("relation_slot", array<&Batch::relation_slot>(), "(B,) int32 index into relations")
      .def_prop_ro("positive_offset", array<&Batch::positive_offset>(), "(U + 1,) int32")
      .def_prop_ro("positive_occurrence", array<&Batch::positive_occurrence>(), "(2 B,) int32; i < B head, else tail")
      .def_prop_ro("negative_offset", array<&Batch::negative_offset>(), "(U + 1,) int32")
      .def_prop_ro("negative_occurrence", array<&Batch::negative_occurrence>(), "(N,) int32")
      .def_prop_ro("relation_offset", array<&Batch::relation_offset>(), "(R + 1,) int32")
      .def_prop_ro("relation_occurrence", array<&Batch::relation_occurrence>(), "(B,) int32")
      .def("__len__", &Batch::positives);

  module.def(
      "make_batch",
      [](const Ids& head, const Ids& relation, const Ids& tail, const Ids& negative, bool corrupt_head,
         std::int64_t chunk_size, std::int64_t entities, std::int64_t relations, const std::optional<Weights>& weight,
         std::int64_t step) {
        auto batch = std::make_shared<Batch>();
        batch->step = step;
        batch->corrupt_head = corrupt_head;
        batch->chunk_size = chunk_size;
        batch->head = copy(head);
        batch->relation = copy(relation);
        batch->tail = copy(tail);
        batch->negative = copy(negative);
        if (weight) batch->weight.assign(weight->data(), weight->data() + weight->shape(0));
        if (chunk_size < 1 || batch->chunks() < 1 || batch->head.size() % chunk_size ||
            batch->negative.size() % batch->chunks() || (weight && weight->shape(0) != head.shape(0))) {
          throw std::invalid_argument("positives must be whole chunks, negatives as many for each, weights one each");
        }
        batch->negatives_per_chunk = static_cast<std::int64_t>(batch->negative.size()) / batch->chunks();
        BatchIndexer(entities, relations).index(*batch);
        return batch;
      },
      "head"_a, "relation"_a, "tail"_a, "negative"_a, "corrupt_head"_a, "chunk_size"_a, "entities"_a, "relations"_a,
      "weight"_a = nb::none(), "step"_a = 0,
      "A batch of given positives and negatives, for instance from a recorded run.");

  nb::class_<BatchSource>(module, "BatchSource", "Makes the batch of any step.")
      .def("batch", &batch_of, "step"_a, nb::call_guard<nb::gil_scoped_release>(), "The batch of any step, made now.");

  nb::class_<Sampler, BatchSource>(module, "Sampler")
      .def(
          "__init__",
          [](Sampler* self, const AnyIds& head, const AnyIds& relation, const AnyIds& tail,
             const std::optional<Weights>& weight, const std::optional<Weights>& odd_weight,
             const std::optional<AnyIds>& part, std::int64_t entities, std::int64_t relations, std::int64_t batch_size,
             std::int64_t negatives, std::uint64_t seed, std::int64_t rank, std::int64_t ranks, std::int64_t inverse,
             std::int64_t chunk, bool exclude_positive, const std::optional<RowOwners>& owners) {
            for (const auto* each : {&weight, &odd_weight}) {
              if (*each && (*each)->shape(0) != head.shape(0)) throw std::invalid_argument("one weight per edge");
            }
            const EdgeList edges{view(head, "head"), view(relation, "relation"), view(tail, "tail"),
                                 weight ? weight->data() : nullptr, odd_weight ? odd_weight->data() : nullptr};
            const SamplerConfig config{entities, relations, batch_size, negatives, seed,
                                       rank,     ranks,     inverse,    chunk,     exclude_positive, owners};
            const IdArray indices = part ? view(*part, "part") : IdArray();
            new (self) Sampler(edges, config, part ? &indices : nullptr);
          },
          "head"_a, "relation"_a, "tail"_a, "weight"_a.none(), "odd_weight"_a.none(), "part"_a.none(), nb::kw_only(),
          "entities"_a, "relations"_a, "batch_size"_a, "negatives"_a, "seed"_a, "rank"_a, "ranks"_a, "inverse"_a = 0,
          "chunk"_a = 0, "exclude_positive"_a = false, "owners"_a = nb::none(), nb::keep_alive<1, 2>(),
          nb::keep_alive<1, 3>(), nb::keep_alive<1, 4>(), nb::keep_alive<1, 5>(), nb::keep_alive<1, 6>(),
          nb::keep_alive<1, 7>(),
          "owners: negatives are drawn from the entities that worker `rank` owns; None: from all.")
      .def_prop_ro("edges", &Sampler::edges, "Edges of this rank.")
      .def_prop_ro("batch_size", &Sampler::batch_size, "Positives of a full batch, after rounding to whole chunks.")
      .def_prop_ro("chunk_size", &Sampler::chunk_size)
      .def_prop_ro("batches_per_epoch", &Sampler::batches_per_epoch,
                   "Of one direction; an epoch of both has twice as many.");

  nb::exception<RankLost>(module, "RankLost", PyExc_RuntimeError);
  nb::class_<BatchRing>(module, "BatchRing", "Memory in which processes hand each other batches.")
      .def(
          "__init__",
          [](BatchRing* self, int ranks, const BatchSource& source) { new (self) BatchRing(ranks, source.limits()); },
          "ranks"_a, "source"_a)
      .def(nb::init<const std::string&>(), "path"_a, "That of another process.")
      .def_prop_ro("path", &BatchRing::path, "For other processes of this machine.")
      .def_prop_ro("ranks", &BatchRing::ranks)
      .def_prop_ro("nbytes", &BatchRing::bytes);

  nb::class_<SharedBatches, BatchSource>(module, "SharedBatches", "What the ranks of a ring make, each its steps.")
      .def(
          "__init__",
          [](SharedBatches* self, std::shared_ptr<BatchSource> source, std::shared_ptr<BatchRing> ring, int rank,
             std::int64_t first_step, int threads) {
            new (self) SharedBatches(std::move(source), std::move(ring), rank, first_step, threads);
          },
          "source"_a, "ring"_a, "rank"_a, "first_step"_a, "threads"_a);

  nb::class_<BatchStream>(module, "BatchStream",
                          "Batches in the order of steps, made ahead by background threads. One consumer.")
      .def(
          "__init__",
          [](BatchStream* self, std::shared_ptr<BatchSource> source, std::int64_t first_step, int threads,
             int lookahead, std::shared_ptr<BatchPacker> packer) {
            BatchStream::Packer pack;
            if (packer) pack = [packer](const Batch& batch) { return packer->pack(batch); };
            new (self) BatchStream(std::move(source), first_step, threads, lookahead, std::move(pack));
          },
          "source"_a, "first_step"_a, "threads"_a, "lookahead"_a, "packer"_a.none() = nb::none(),
          "packer: a BatchPacker that packs each batch where it is made.")
      .def(
          "next", [](BatchStream& stream) { return std::const_pointer_cast<Batch>(stream.next()); },
          nb::call_guard<nb::gil_scoped_release>(),
          "The batch of the next step. Raises what went wrong where it was made, and RuntimeError after close.")
      .def("close", &BatchStream::close, nb::call_guard<nb::gil_scoped_release>(), "Stop the threads.")
      .def_prop_ro("wait_seconds", &BatchStream::wait_seconds, "How long next() has waited for a batch, in all.");
}

}  // namespace frugal::bindings::sampler
