#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "bindings/bindings.h"
#include "bindings/records.h"
#include "bindings/row_elements.h"
#include "step/announce.h"
#include "store/cached_rows.h"
#include "store/direct_rows.h"
#include "store/step_rows.h"
#include "store/stochastic_rounded_rows.h"
#include "table/host_table.h"

namespace frugal::bindings::store {
namespace {

using Counts = nb::ndarray<const std::int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

Records source_records(const StepRows& rows, const Ids& ids) {
  return find_records(rows, rows.source(), ids.data(), length(ids));
}

Records destination_records(const StepRows& rows, const Ids& ids) {
  return find_records(rows, rows.destination(), ids.data(), length(ids));
}

// Row-wise Adagrad for all entries of the running step, in order: where a row is this rank's to update; the gradients
// of other rows go where they leave.
void apply_entries(const StepRows& rows, const std::vector<std::pair<Ids, ConstMatrix>>& entries,
                   float learning_rate) {
  const std::int64_t dim = rows.layout().dim;
  std::vector<std::int64_t> sent(rows.rows().size());
  for (const auto& [ids, gradients] : entries) {
    EntryTargets targets = find_targets(rows, ids.data(), length(ids), sent);
    check_matrix(gradients, targets.record, rows.layout());
    const nb::gil_scoped_release release;
    for (std::size_t i = 0; i < targets.gradient.size(); ++i)
      if (targets.gradient[i] != nullptr)
        std::copy_n(gradients.data() + static_cast<std::int64_t>(i) * dim, dim, targets.gradient[i]);
    apply_entry(RowAdagrad{learning_rate}, targets.record.data(), static_cast<std::int64_t>(targets.record.size()), dim,
                gradients.data());
  }
}

template <BatchRows (*rows_of)(const Batch&)>
void announce(StepRows& rows, const Batch& batch) {
  const BatchRows found = rows_of(batch);
  rows.announce(batch.step, found.rows, found.occurrences);
}

}  // namespace

void bind(nb::module_& module) {
  nb::class_<StepRows>(module, "StepRows", "Where a step on the CPU finds its rows and leaves them.")
      .def(
          "announce",
          [](StepRows& rows, std::int64_t step, const Ids& ids, const std::optional<Counts>& occurrences) {
            const nb::gil_scoped_release release;  // it may wait for other ranks
            rows.announce(step, {ids.data(), ids.shape(0)},
                          {occurrences ? occurrences->data() : nullptr, occurrences ? occurrences->size() : 0});
          },
          "step"_a, "rows"_a, "occurrences"_a.none() = nb::none(),
          "Step `step` will use `rows` (U,) int64, ascending and distinct. occurrences: of several ranks, how many "
          "gradients each row has in each entry, (entries * U,) int32, entry after entry.")
      .def("announce_entities", &announce<entities_of>, "batch"_a, nb::call_guard<nb::gil_scoped_release>(),
           "The batch's step will use its entities.")
      .def("announce_relations", &announce<relations_of>, "batch"_a, nb::call_guard<nb::gil_scoped_release>(),
           "The batch's step will use its relations.")
      .def("announce_projections", &announce<projections_of>, "batch"_a, nb::call_guard<nb::gil_scoped_release>(),
           "The batch's step will use its relations' projections.")
      .def("begin", &StepRows::begin, "step"_a, nb::call_guard<nb::gil_scoped_release>(),
           "Wait until the rows of the step may be read.")
      .def("end", &StepRows::end, nb::call_guard<nb::gil_scoped_release>(), "All destinations are written.")
      .def("drain", &StepRows::drain, nb::call_guard<nb::gil_scoped_release>(),
           "Between two steps: wait until the host table holds every update.")
      .def(
          "copy_to_destination", [](const StepRows& rows) { copy_to_destination(rows); },
          nb::call_guard<nb::gil_scoped_release>(),
          "Before updating bit by bit: bring every record to where it is written.")
      .def(
          "gather",
          [](const StepRows& rows, const Ids& ids, const Matrix& out) {
            gather(source_records(rows, ids), rows.layout(), out);
          },
          "ids"_a, "out"_a, "As HostTable.gather, for rows of the running step.")
      .def(
          "apply_entry",
          [](const StepRows& rows, const Ids& ids, const ConstMatrix& gradients, float learning_rate) {
            apply(destination_records(rows, ids), rows.layout(), gradients, learning_rate);
          },
          "ids"_a, "gradients"_a, "learning_rate"_a, "As HostTable.apply_entry, for rows of the running step.")
      .def("apply_entries", &apply_entries, "entries"_a, "learning_rate"_a,
           "All entries of the running step, pairs (ids (n,) int64, gradients (n, dim) float32) in the order in which "
           "they were announced. Rows that other ranks change in the same step leave as gradients.")
      .def(
          "accumulate_entry",
          [](const StepRows& rows, const Ids& ids, const ConstMatrix& gradients, const HostFloats& states) {
            accumulate(destination_records(rows, ids), rows.layout(), gradients, states);
          },
          "ids"_a, "gradients"_a, "states"_a, "As HostTable.accumulate_entry, for rows of the running step.")
      .def(
          "move_entry",
          [](const StepRows& rows, const Ids& ids, const ConstMatrix& gradients, const ConstHostFloats& deviations,
             float learning_rate) {
            move(destination_records(rows, ids), rows.layout(), gradients, deviations, learning_rate);
          },
          "ids"_a, "gradients"_a, "deviations"_a, "learning_rate"_a,
          "As HostTable.move_entry, for rows of the running step.");

  nb::class_<DirectRows, StepRows>(module, "DirectRows", "Rows read and written in the host table itself.")
      .def(nb::init<HostTable&>(), "table"_a, nb::keep_alive<1, 2>());
  nb::class_<CachedRows, StepRows>(module, "CachedRows", "Rows of one rank on the CPU, cached and flushed as on a GPU.")
      .def(nb::init<HostTable&, EngineClient&>(), "table"_a, "client"_a, nb::keep_alive<1, 2>(),
           nb::keep_alive<1, 3>());
  nb::class_<StochasticRoundedRows, StepRows>(
      module, "StochasticRoundedRows",
      "Rows in half precision, as steps on the CPU compute with them: in floats, rounded at random where a step ends.")
      .def(
          "__init__",
          [](StochasticRoundedRows* self, StepRows& beneath, std::uint64_t seed, std::uint32_t table,
             const ColumnRanges& columns) {
            new (self) StochasticRoundedRows(beneath, {seed, table, whole_columns(columns, beneath.layout().dim)});
          },
          "beneath"_a, "seed"_a, "table"_a, "columns"_a = ColumnRanges{}, nb::keep_alive<1, 2>(),
          "columns: which of whole rows these are, at most two ranges (first, count); none for all.");
}

}  // namespace frugal::bindings::store
