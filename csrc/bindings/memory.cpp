#include "table/host_table.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <vector>

#include "base/parallel/thread_pool.h"
#include "bindings/arrays.h"
#include "bindings/bindings.h"
#include "bindings/records.h"
#include "bindings/row_elements.h"
#include "table/largest.h"
#include "table/row_ids.h"
#include "table/row_owners.h"

namespace frugal::bindings::memory {
namespace {

// Functions on rows where they lie, as floats.
HostTable& in_floats(HostTable& table) {
  table.layout().require_floats();
  return table;
}

template <class Array>
void check_columns(const HostTable& table, const Array& values) {
  if (values.shape(1) != static_cast<std::size_t>(table.layout().dim))
    throw std::invalid_argument("the matrix must have one column per dimension");
}

// Calls body(row, values) for neighbouring rows of the table, from `first` on, and the rows of a matrix with the same
// numbers.
template <class Array, class Body>
void for_rows(const HostTable& table, std::int64_t first, const Array& matrix, Body body) {
  const auto count = static_cast<std::int64_t>(matrix.shape(0));
  check_columns(table, matrix);
  if (first < 0 || first + count > table.rows()) throw nb::index_error("rows must lie in the table");
  const nb::gil_scoped_release release;
  default_pool()->parallel_for(count, kRowsPerTask, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) body(first + i, matrix.data() + i * table.layout().dim);
  });
}

FilledPart::RowIds owned(const HostTable& table, const std::optional<RowOwners>& owners, int worker) {
  if (!owners) return {};
  require(worker >= 0 && worker < owners->workers() && owners->count(worker) == table.rows(),
          "the table must have a row for each one that the worker owns");
  return [owners = *owners, worker](std::int64_t row) { return owners.id(worker, row); };
}

// (n,) numbers of rows, each made from an id.
template <class Number, class Of>
nb::ndarray<nb::numpy, Number, nb::ndim<1>> of_each(const Ids& ids, std::int64_t below, Of of) {
  check_row_ids(ids.data(), length(ids), below);
  std::vector<Number> numbers(ids.size());
  std::transform(ids.data(), ids.data() + ids.size(), numbers.begin(), of);
  return to_numpy(std::move(numbers));
}

// A view of the table's rows, `pitch` numbers apart, which keeps the table alive.
template <class Number>
nb::ndarray<nb::numpy, Number, nb::ndim<2>> rows_view(nb::handle self, void* first, std::int64_t columns,
                                                      std::int64_t pitch) {
  const std::size_t shape[2] = {static_cast<std::size_t>(nb::cast<HostTable&>(self).rows()),
                                static_cast<std::size_t>(columns)};
  const std::int64_t strides[2] = {pitch, 1};
  return {first, 2, shape, self, strides};
}

}  // namespace

void bind(nb::module_& module) {
  nb::class_<RowOwners>(module, "RowOwners", "Which of several workers owns a row, see csrc/table/row_owners.h.")
      .def(nb::init<std::int64_t, int, bool>(), "rows"_a, "workers"_a, "hashed"_a,
           "hashed: neighbouring ids are spread over all workers; else each owns a range of ids. ValueError if a "
           "worker would own no row.")
      .def("__init__",
           [](RowOwners* self, const Ids& order, int workers) {
             new (self) RowOwners(order.data(), length(order), workers);
           },
           "order"_a, "workers"_a,
           "order: (rows,) int64, each row once; each worker owns a range of it. ValueError for another array.")
      .def_prop_ro("rows", &RowOwners::rows)
      .def_prop_ro("workers", &RowOwners::workers)
      .def("count", &RowOwners::count, "worker"_a, "Rows that the worker owns.")
      .def(
          "owner",
          [](const RowOwners& owners, const Ids& ids) {
            return of_each<std::int32_t>(ids, owners.rows(), [&](std::int64_t id) { return owners.owner(id); });
          },
          "ids"_a, "Owners (n,) int32 of rows ids (n,) int64. IndexError for a wrong id.")
      .def(
          "local",
          [](const RowOwners& owners, const Ids& ids) {
            return of_each<std::int64_t>(ids, owners.rows(), [&](std::int64_t id) { return owners.local(id); });
          },
          "ids"_a, "Their numbers (n,) int64 among the rows of their owners. IndexError for a wrong id.")
      .def(
          "ids",
          [](const RowOwners& owners, int worker, const Ids& local) {
            require(worker >= 0 && worker < owners.workers(), "there is no such worker");
            return of_each<std::int64_t>(local, owners.count(worker),
                                         [&](std::int64_t row) { return owners.id(worker, row); });
          },
          "worker"_a, "local"_a, "Ids (n,) int64 of rows by their numbers among those of a worker.");
  module.def(
      "row_bytes",
      [](std::int64_t dim, std::int64_t state, const std::string& element) {
        return RowLayout::for_dim(dim, state, element_named(element)).bytes();
      },
      "dim"_a, "state"_a, "element"_a = "fp32",
      "Of a row of a HostTable, in host memory and on a device alike: embedding, `state` floats of state, padding.");
  module.def(
      "largest_magnitude",
      [](const nb::ndarray<const float, nb::ndim<2>, nb::device::cpu>& rows) {
        require(rows.size() == 0 || rows.shape(1) == 1 || rows.stride(1) == 1,
                "the numbers of a row lie one behind the other");
        const nb::gil_scoped_release release;
        return largest_magnitude(rows.data(), static_cast<std::int64_t>(rows.shape(0)),
                                 static_cast<std::int64_t>(rows.shape(1)), rows.stride(0));
      },
      "rows"_a, "The largest |x| of rows (n, dim) float32; NaN if one is NaN, 0 of no numbers.");
  module.def("has_managed_memory", &ManagedMemory::is_available,
             "Whether all CUDA devices share memory of the driver with the host while they work.");
  nb::class_<HostTable>(module, "HostTable", "Embedding rows in host memory; each row carries its optimizer state.")
      .def("__init__",
           [](HostTable* self, std::int64_t rows, std::int64_t dim, bool shared, std::int64_t state,
              const std::string& element, int part, int parts, bool managed) {
             const Sharing sharing = managed ? Sharing::kManaged : shared ? Sharing::kShared : Sharing::kPrivate;
             new (self) HostTable(rows, dim, sharing, state, element_named(element), {part, parts});
           },
           "rows"_a, "dim"_a, "shared"_a = false, "state"_a = 1, "element"_a = "fp32", "part"_a = 0, "parts"_a = 1,
           "managed"_a = false,
           "element: fp32 or fp16. part: of so many tables of this shape whose rows lie behind each other, row by "
           "row. managed: in memory of the CUDA driver, which devices address by large pages; DeviceError if it has "
           "none.")
      .def("__init__",
           [](HostTable* self, const std::string& path, std::int64_t rows, std::int64_t dim, std::int64_t state,
              const std::string& element, int part, int parts) {
             new (self) HostTable(path, rows, dim, state, element_named(element), {part, parts});
           },
           "path"_a, "rows"_a, "dim"_a, "state"_a = 1, "element"_a = "fp32", "part"_a = 0, "parts"_a = 1,
           "A shared table that is there already, or another part of it. Raises RuntimeError if it is not there.")
      .def(
          "part", [](HostTable& self, int part) { return std::make_unique<HostTable>(self, part); }, "part"_a,
          "Another part of the same mapping. ValueError if there is none.")
      .def_prop_ro("is_managed", &HostTable::is_managed)
      .def("map_for", &HostTable::map_for, "device"_a,
           "Of a managed table: from now on the CUDA device with this number reads and writes it.")
      .def_prop_ro("path", &HostTable::path, "Where other processes attach; empty for a private table.")
      .def_prop_ro("rows", &HostTable::rows)
      .def_prop_ro("dim", [](const HostTable& table) { return table.layout().dim; })
      .def_prop_ro("element", [](const HostTable& table) { return name_of(table.layout().element); },
                   "fp32 or fp16.")
      .def_prop_ro("embedding_floats", [](const HostTable& table) { return table.layout().state_offset(); },
                   "Floats whose place an embedding takes: dim, or in half precision half of it, rounded up.")
      .def_prop_ro("stride", [](const HostTable& table) { return table.layout().stride; },
                   "Floats of a row with its padding, and from row to row where the table is the only part.")
      .def_prop_ro("record_stride", [](const HostTable& table) { return table.layout().in_floats().stride; },
                   "Floats from one record to the next, where steps compute with them, in float32 always.")
      .def_prop_ro("state_floats", [](const HostTable& table) { return table.layout().state; },
                   "Floats of optimizer state behind a row.")
      .def_prop_ro("record_floats", [](const HostTable& table) { return table.layout().record_floats(); },
                   "Floats that move when a row moves: embedding and state.")
      .def_prop_ro("nbytes", &HostTable::bytes)
      .def_prop_ro(
          "embeddings",
          [](nb::handle self) {
            auto& table = in_floats(nb::cast<HostTable&>(self));
            return rows_view<float>(self, table.data(), table.layout().dim, table.pitch());
          },
          "(rows, dim) float32 view of the embeddings. ValueError if they are in half precision.")
      .def_prop_ro(
          "half_bits",
          [](nb::handle self) {
            auto& table = nb::cast<HostTable&>(self);
            if (!table.layout().is_half()) throw std::invalid_argument("these rows are in floats");
            return rows_view<std::uint16_t>(self, table.data(), table.layout().dim, 2 * table.pitch());
          },
          "(rows, dim) uint16 view of embeddings in half precision: their bits. ValueError if they are in floats.")
      .def(
          "read",
          [](HostTable& table, std::int64_t first, const Matrix& out) {
            for_rows(table, first, out, [&](std::int64_t row, float* values) { table.read(row, values); });
          },
          "first"_a, "out"_a,
          "Copies the embeddings of neighbouring rows, from `first` on, into `out` (n, dim) float32.")
      .def(
          "assign",
          [](HostTable& table, std::int64_t first, const ConstMatrix& values) {
            for_rows(table, first, values, [&](std::int64_t row, const float* given) { table.write(row, given); });
          },
          "first"_a, "values"_a,
          "Sets the embeddings of neighbouring rows, from `first` on, to `values` (n, dim) float32; half precision to "
          "the nearest ones.")
      .def_prop_ro(
          "records",
          [](nb::handle self) {
            auto& table = nb::cast<HostTable&>(self);
            return rows_view<float>(self, table.data(), table.layout().stride, table.pitch());
          },
          "(rows, stride) float32 view of whole rows: embedding, state, padding.")
      .def_prop_ro(
          "all_parts",
          [](nb::handle self) {
            auto& table = nb::cast<HostTable&>(self);
            return rows_view<float>(self, table.all_parts(), table.pitch(), table.pitch());
          },
          "(rows, parts * stride) float32 view of the same rows of all parts.")
      .def_prop_ro(
          "state",
          [](nb::handle self) {
            auto& table = nb::cast<HostTable&>(self);
            const std::size_t shape[1] = {static_cast<std::size_t>(table.rows())};
            const std::int64_t strides[1] = {table.pitch()};
            return nb::ndarray<nb::numpy, float, nb::ndim<1>>(&table.state(0), 1, shape, self, strides);
          },
          "(rows,) float32 view of the optimizer state.")
      .def(
          "init_uniform",
          [](HostTable& table, float low, float high, std::uint64_t seed, std::uint64_t stream, std::int64_t whole_dim,
             const ColumnRanges& ranges, std::int64_t first, std::int64_t count, const std::optional<RowOwners>& owners,
             int worker) {
            table.init_uniform(low, high, seed, stream,
                               {first, count, whole_dim, ranges, owned(table, owners, worker)});
          },
          "low"_a, "high"_a, "seed"_a, "stream"_a, "whole_dim"_a = 0, "ranges"_a = ColumnRanges{}, "first"_a = 0,
          "count"_a = -1, "owners"_a = nb::none(), "worker"_a = 0, nb::call_guard<nb::gil_scoped_release>(),
          "Sets `count` rows from `first` on, all if not given, to uniform numbers, and their state to 0. whole_dim: "
          "this table has some columns of rows that are so long: ranges (first, count), one behind the other. owners: "
          "this table has the rows of a larger one that `worker` owns.")
      .def(
          "init_normal",
          [](HostTable& table, float deviation, std::uint64_t seed, std::uint64_t stream, std::int64_t whole_dim,
             const ColumnRanges& ranges, float mean, std::int64_t first, std::int64_t count,
             const std::optional<RowOwners>& owners, int worker) {
            table.init_normal(mean, deviation, seed, stream,
                              {first, count, whole_dim, ranges, owned(table, owners, worker)});
          },
          "deviation"_a, "seed"_a, "stream"_a, "whole_dim"_a = 0, "ranges"_a = ColumnRanges{}, "mean"_a = 0.0f,
          "first"_a = 0, "count"_a = -1, "owners"_a = nb::none(), "worker"_a = 0,
          nb::call_guard<nb::gil_scoped_release>(), "Normal numbers, otherwise as init_uniform.")
      .def(
          "gather",
          [](HostTable& table, const Ids& ids, const Matrix& out) {
            const Records records = records_of(table, ids.data(), length(ids));
            if (!table.layout().is_half()) return gather(records, table.layout(), out);
            check_columns(table, out);
            if (out.shape(0) != records.size()) throw std::invalid_argument("the matrix must have one row per id");
            const nb::gil_scoped_release release;
            default_pool()->parallel_for(length(ids), kRowsPerTask, [&](std::int64_t begin, std::int64_t end) {
              for (std::int64_t i = begin; i < end; ++i)
                table.read(ids.data()[i], out.data() + i * table.layout().dim);
            });
          },
          "ids"_a, "out"_a, "Copies the embeddings of `ids` (n,) int64 into `out` (n, dim). IndexError for a wrong id.")
      .def(
          "apply_entry",
          [](HostTable& table, const Ids& ids, const ConstMatrix& gradients, float learning_rate) {
            apply(records_of(in_floats(table), ids.data(), length(ids)), table.layout(), gradients, learning_rate);
          },
          "ids"_a, "gradients"_a, "learning_rate"_a,
          "Applies one entry of row-wise Adagrad: ids (n,) int64, gradients (n, dim), duplicates in order.")
      .def(
          "accumulate_entry",
          [](HostTable& table, const Ids& ids, const ConstMatrix& gradients, const HostFloats& states) {
            accumulate(records_of(in_floats(table), ids.data(), length(ids)), table.layout(), gradients, states);
          },
          "ids"_a, "gradients"_a, "states"_a,
          "First half of apply_entry: adds to the states and writes each occurrence's final state to `states` (n,).")
      .def(
          "move_entry",
          [](HostTable& table, const Ids& ids, const ConstMatrix& gradients, const ConstHostFloats& deviations,
             float learning_rate) {
            move(records_of(in_floats(table), ids.data(), length(ids)), table.layout(), gradients, deviations,
                 learning_rate);
          },
          "ids"_a, "gradients"_a, "deviations"_a, "learning_rate"_a,
          "Second half of apply_entry: moves the rows, occurrence i divided by deviations[i].");
}

}  // namespace frugal::bindings::memory
