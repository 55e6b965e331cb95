#include "memory/host_table.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings/bindings.h"
#include "bindings/records.h"
#include "memory/row_ids.h"

namespace frugal {
namespace {

namespace nb = nanobind;
using nb::literals::operator""_a;
using namespace bindings;
}  // namespace

void bind_memory(nb::module_& module) {
  nb::class_<HostTable>(module, "HostTable", "Embedding rows in host memory; each row carries its optimizer state.")
      .def("__init__",
           [](HostTable* self, std::int64_t rows, std::int64_t dim, bool shared, std::int64_t state) {
             new (self) HostTable(rows, dim, shared ? Sharing::kShared : Sharing::kPrivate, state);
           },
           "rows"_a, "dim"_a, "shared"_a = false, "state"_a = 1)
      .def(nb::init<const std::string&, std::int64_t, std::int64_t, std::int64_t>(), "path"_a, "rows"_a, "dim"_a,
           "state"_a = 1,
           "The shared table of another process. Raises RuntimeError if it is not there.")
      .def_prop_ro("path", &HostTable::path, "Where other processes attach; empty for a private table.")
      .def_prop_ro("rows", &HostTable::rows)
      .def_prop_ro("dim", [](const HostTable& table) { return table.layout().dim; })
      .def_prop_ro("stride", [](const HostTable& table) { return table.layout().stride; }, "Floats between rows.")
      .def_prop_ro("state_floats", [](const HostTable& table) { return table.layout().state; },
                   "Floats of optimizer state behind a row.")
      .def_prop_ro("record_floats", [](const HostTable& table) { return table.layout().record_floats(); },
                   "Floats that move when a row moves: embedding and state.")
      .def_prop_ro("nbytes", &HostTable::bytes)
      .def_prop_ro("address", [](HostTable& table) { return reinterpret_cast<std::uintptr_t>(table.data()); })
      .def_prop_ro(
          "embeddings",
          [](nb::handle self) {
            auto& table = nb::cast<HostTable&>(self);
            const std::size_t shape[2] = {static_cast<std::size_t>(table.rows()),
                                          static_cast<std::size_t>(table.layout().dim)};
            const std::int64_t strides[2] = {table.layout().stride, 1};
            return nb::ndarray<nb::numpy, float, nb::ndim<2>>(table.data(), 2, shape, self, strides);
          },
          "(rows, dim) float32 view of the embeddings.")
      .def_prop_ro(
          "records",
          [](nb::handle self) {
            auto& table = nb::cast<HostTable&>(self);
            const std::size_t shape[2] = {static_cast<std::size_t>(table.rows()),
                                          static_cast<std::size_t>(table.layout().stride)};
            return nb::ndarray<nb::numpy, float, nb::ndim<2>>(table.data(), 2, shape, self);
          },
          "(rows, stride) float32 view of whole rows: embedding, state, padding.")
      .def_prop_ro(
          "state",
          [](nb::handle self) {
            auto& table = nb::cast<HostTable&>(self);
            const std::size_t shape[1] = {static_cast<std::size_t>(table.rows())};
            const std::int64_t strides[1] = {table.layout().stride};
            return nb::ndarray<nb::numpy, float, nb::ndim<1>>(&table.state(0), 1, shape, self, strides);
          },
          "(rows,) float32 view of the optimizer state.")
      .def(
          "init_uniform",
          [](HostTable& table, float low, float high, std::uint64_t seed, std::uint64_t stream) {
            table.init_uniform(low, high, seed, stream);
          },
          "low"_a, "high"_a, "seed"_a, "stream"_a, nb::call_guard<nb::gil_scoped_release>())
      .def(
          "init_uniform",
          [](HostTable& table, float low, float high, std::uint64_t seed, std::uint64_t stream, std::int64_t whole_dim,
             const std::vector<std::pair<std::int64_t, std::int64_t>>& ranges) {
            table.init_uniform(low, high, seed, stream, whole_dim, ranges);
          },
          "low"_a, "high"_a, "seed"_a, "stream"_a, "whole_dim"_a, "ranges"_a,
          nb::call_guard<nb::gil_scoped_release>(),
          "The same for some columns of rows that are whole_dim long: ranges (first, count), one behind the other.")
      .def(
          "gather",
          [](HostTable& table, const Ids& ids, const Matrix& out) {
            gather(records_of(table, ids.data(), length(ids)), table.layout(), out);
          },
          "ids"_a, "out"_a, "Copies the embeddings of `ids` (n,) int64 into `out` (n, dim). IndexError for a wrong id.")
      .def(
          "apply_entry",
          [](HostTable& table, const Ids& ids, const ConstMatrix& gradients, float learning_rate) {
            apply(records_of(table, ids.data(), length(ids)), table.layout(), gradients, learning_rate);
          },
          "ids"_a, "gradients"_a, "learning_rate"_a,
          "Applies one entry of row-wise Adagrad: ids (n,) int64, gradients (n, dim), duplicates in order.")
      .def(
          "accumulate_entry",
          [](HostTable& table, const Ids& ids, const ConstMatrix& gradients, const Vector& states) {
            accumulate(records_of(table, ids.data(), length(ids)), table.layout(), gradients, states);
          },
          "ids"_a, "gradients"_a, "states"_a,
          "First half of apply_entry: adds to the states and writes each occurrence's final state to `states` (n,).")
      .def(
          "move_entry",
          [](HostTable& table, const Ids& ids, const ConstMatrix& gradients, const ConstVector& deviations,
             float learning_rate) {
            move(records_of(table, ids.data(), length(ids)), table.layout(), gradients, deviations, learning_rate);
          },
          "ids"_a, "gradients"_a, "deviations"_a, "learning_rate"_a,
          "Second half of apply_entry: moves the rows, occurrence i divided by deviations[i].");
}

}  // namespace frugal
