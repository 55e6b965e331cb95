#include "step/train_step.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <optional>

#include "bindings/bindings.h"
#include "memory/host_table.h"
#include "store/step_rows.h"

namespace frugal {
namespace {

namespace nb = nanobind;
using nb::literals::operator""_a;
using Addresses = nb::ndarray<const std::uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// Rows given as addresses, one per distinct id of the batch.
RowPointers pointers(const Addresses& source, const Addresses& destination, std::size_t count, const char* what) {
  static_assert(sizeof(std::uint64_t) == sizeof(float*));
  if (source.shape(0) != count || destination.shape(0) != count)
    throw std::invalid_argument(std::string("one source and one destination address per distinct ") + what + " of the batch");
  return {reinterpret_cast<const float* const*>(source.data()), reinterpret_cast<float* const*>(destination.data())};
}

// The rows of some ids of a table.
std::vector<float*> rows_of(HostTable& table, const std::vector<std::int64_t>& ids, std::int64_t dim, const char* what) {
  if (table.layout().dim != dim) throw std::invalid_argument(std::string(what) + " table has rows of another length than the model");
  if (!ids.empty() && (ids.front() < 0 || ids.back() >= table.rows()))  // ascending
    throw nb::index_error((std::string(what) + " ids must lie in the table").c_str());
  std::vector<float*> rows(ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) rows[i] = table.row(ids[i]);
  return rows;
}

// The rows of a running step, in the order of the batch's distinct ids.
RowPointers running(const StepRows& rows, const std::vector<std::int64_t>& ids, std::int64_t dim, const char* what) {
  if (rows.layout().dim != dim) throw std::invalid_argument(std::string(what) + " rows have another length than the model's");
  if (!std::ranges::equal(rows.rows(), ids)) throw std::invalid_argument(std::string(what) + " rows are not those of the batch");
  return {rows.source().data(), rows.destination().data()};
}

}  // namespace

void bind_step(nb::module_& module) {
  nb::enum_<LossGenre>(module, "LossGenre")
      .value("SOFTPLUS", LossGenre::kSoftplus, "log(1 + e^-x): Logsigmoid, Logistic and BCE.")
      .value("HINGE", LossGenre::kHinge, "max(0, margin - x).");

  nb::class_<StepLosses>(module, "StepLosses", "What one step reports: means over its positives, as DGL-KE logs them.")
      .def_ro("positive", &StepLosses::positive)
      .def_ro("negative", &StepLosses::negative)
      .def_ro("regularization", &StepLosses::regularization)
      .def_ro("total", &StepLosses::total, "What is differentiated, regularization included.");

  nb::class_<TrainStep>(module, "TrainStep", "Forward, gradients and update of one batch on the CPU. See csrc/step.")
      .def(
          "__init__",
          [](TrainStep* self, std::string model, std::int64_t entity_dim, std::int64_t relation_dim, float gamma,
             float embedding_range, LossGenre genre, float margin, bool pairwise, bool adversarial, float temperature,
             float regularization_coefficient, float regularization_norm, float learning_rate, bool degree_negatives,
             const std::optional<std::string>& instruction_set) {
            const Kernels* chosen = instruction_set ? kernels(instruction_set->c_str()) : &kernels();
            if (!chosen) throw std::invalid_argument("this processor or build has no instruction set " + *instruction_set);
            new (self) TrainStep({std::move(model), entity_dim, relation_dim, gamma, embedding_range},
                                 {genre, margin, pairwise, adversarial, temperature, regularization_coefficient,
                                  regularization_norm},
                                 learning_rate, degree_negatives, default_pool(), *chosen);
          },
          nb::kw_only(), "model"_a, "entity_dim"_a, "relation_dim"_a, "gamma"_a, "embedding_range"_a, "genre"_a, "margin"_a,
          "pairwise"_a, "adversarial"_a, "temperature"_a, "regularization_coefficient"_a, "regularization_norm"_a,
          "learning_rate"_a, "degree_negatives"_a, "instruction_set"_a = nb::none(),
          "Uses the threads that set_num_threads gave before. instruction_set: 'baseline' or 'avx512', for tests.")
      .def(
          "run",
          [](TrainStep& step, const Batch& batch, const Addresses& entity_source, const Addresses& entity_destination,
             const Addresses& relation_source, const Addresses& relation_destination) {
            const auto entities = pointers(entity_source, entity_destination, batch.entities.size(), "entity");
            const auto relations = pointers(relation_source, relation_destination, batch.relations.size(), "relation");
            const nb::gil_scoped_release release;
            return step.run(batch, entities, relations);
          },
          "batch"_a, "entity_source"_a, "entity_destination"_a, "relation_source"_a, "relation_destination"_a,
          "Trains on rows at addresses (uint64), in the order of batch.entities and batch.relations: dim floats, then the "
          "optimizer state. The addresses must be valid; a row's two addresses may be the same.")
      .def(
          "run_in_place",
          [](TrainStep& step, const Batch& batch, HostTable& entities, HostTable& relations) {
            const auto entity_rows = rows_of(entities, batch.entities, step.model().spec().entity_dim, "entity");
            const auto relation_rows = rows_of(relations, batch.relations, step.model().spec().relation_dim, "relation");
            const nb::gil_scoped_release release;
            return step.run(batch, {entity_rows.data(), entity_rows.data()}, {relation_rows.data(), relation_rows.data()});
          },
          "batch"_a, "entities"_a, "relations"_a, "Trains on the rows of two host tables. IndexError for a wrong id.")
      .def(
          "run_rows",
          [](TrainStep& step, const Batch& batch, const StepRows& entities, const StepRows& relations) {
            const RowPointers entity_rows = running(entities, batch.entities, step.model().spec().entity_dim, "entity");
            const RowPointers relation_rows =
                running(relations, batch.relations, step.model().spec().relation_dim, "relation");
            const nb::gil_scoped_release release;
            return step.run(batch, entity_rows, relation_rows);
          },
          "batch"_a, "entities"_a, "relations"_a, "Trains on the running step's rows, which must be the batch's.")
      .def_prop_ro(
          "phase_seconds",
          [](const TrainStep& step) {
            nb::list seconds;
            for (const auto each : step.phase_nanoseconds()) seconds.append(1e-9 * static_cast<double>(each));
            return seconds;
          },
          "Seconds spent so far in: queries and gathering, scores and loss, gradients of negatives and relations, entities.");
}

}  // namespace frugal
