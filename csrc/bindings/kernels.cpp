#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <limits>
#include <optional>
#include <tuple>
#include <vector>

#include "bindings/bindings.h"
#include "bindings/named.h"
#include "bindings/prepared_kernel.h"
#include "bindings/row_arrays.h"
#include "models/cpu/complex_product.h"
#include "models/cuda/complex_product.h"
#include "rows/check_plan.h"
#include "rows/cpu/plan_kernels.h"
#include "rows/cpu/segment_sums.h"
#include "rows/cuda/plan_kernels.h"
#include "rows/cuda/row_updates.h"
#include "rows/cuda/segment_sums.h"

namespace frugal::bindings::kernels {
namespace {

using Bytes = nb::ndarray<const std::uint8_t, nb::ndim<2>, nb::c_contig>;
using Squares = nb::ndarray<const float>;  // (n,), or (ranks, n)
using Entry = std::tuple<ConstRows, Vector<std::int32_t>, std::optional<Vector<std::int32_t>>, std::optional<Squares>>;
// Where the number of the step is, and the ids of its rows.
using RoundedStep = std::tuple<Vector<std::int64_t>, Vector<std::int64_t>>;
using Update = std::tuple<const RowTable*, Vector<std::uint8_t>, Vector<std::int64_t>, Rows, std::vector<Entry>,
                          std::optional<Vector<std::int32_t>>, std::optional<RoundedStep>,
                          std::optional<Vector<std::int32_t>>>;

static_assert(sizeof(WriteBack) == 40, "WRITE_BACK of store/device/plan_kernels.py describes this structure");

PreparedKernel prepare_gather(const RowTable& table, const Vector<std::int64_t>& rows,
                              const Vector<std::int32_t>& source, const Rows& records, const std::string& crossing,
                              const std::string& part) {
  table.check_records(records);
  RowReads reads = reads_of(rows, source, records);
  reads.part = part_of(part);
  const bool stays = reads.part == ReadPart::kCache || table.is_host_on_cuda;
  const auto over = stays ? cuda::Crossing::kNone : crossing_named(crossing);
  const RowMemory memory = table.memory;
  float* const to = records.data();
  if (on_cuda(records))
    return {reads.count, [=](std::int64_t count, std::uintptr_t stream) {
              cuda::gather(memory, {reads.rows, reads.source, count, reads.part}, to, {stream, over});
            }};
  return {reads.count, [=, extent = table.extent](std::int64_t count, std::uintptr_t) {
            const RowReads first{reads.rows, reads.source, count, reads.part};
            check_reads(memory, extent, first);
            cpu::gather(memory, first, to);
          }};
}

// Where the mean squares of `count` gradients are read.
void set_squares(EntryGradients& entry, const Squares& squares, std::size_t count) {
  const bool of_ranks = squares.ndim() == 2;
  require(squares.ndim() == 1 || (of_ranks && squares.shape(0) >= 1), "mean squares are (n,), or (ranks, n)");
  const std::size_t numbers = squares.ndim() - 1;
  require(squares.shape(numbers) >= count && (squares.stride(numbers) == 1 || count <= 1),
          "each gradient needs its mean square, one behind the other");
  entry.squares = squares.data();
  if (!of_ranks) return;
  entry.square_parts = static_cast<int>(squares.shape(0));
  entry.next_part = squares.stride(0);
}

// Checks what a device would read beyond: shapes, and on the CPU also numbers.
TableUpdate table_update(const Update& given) {
  const auto& [table, leave, target, records, entries, used, rounded_step, busy] = given;
  require(table != nullptr, "an update is of a table");
  table->check_records(records);
  const std::int64_t dim = table->memory.dim;
  TableUpdate update{table->memory, {}, records.data(), {}};
  require(leave.size() == target.size() && records.shape(0) >= leave.size(),
          "leave and target must be equally long, and records must have a row for each");
  require(entries.size() <= kMaxEntries, "a step has at most two entries");
  update.writes = {reinterpret_cast<const RowDestination*>(leave.data()), target.data(),
                   static_cast<std::int64_t>(leave.size()), used ? used->data() : nullptr};
  require(!used || used->size() == 1, "the number of used rows is one number");
  if (table->memory.is_half()) {
    require(table->rounded_by && rounded_step, "rows in half precision are rounded when they are updated");
    const auto& [step, ids] = *rounded_step;
    require(step.size() == 1 && ids.size() == leave.size(), "rounding needs the step's number, and an id for each row");
    update.rounding = {*table->rounded_by, step.data(), ids.data()};
  }
  update.gradients.entries = static_cast<int>(entries.size());
  require(!on_cuda(records) || busy || entries.empty(), "on a device an update needs the list of busy rows");
  if (busy) update.gradients.busy = busy->data();
  for (std::size_t e = 0; e < entries.size(); ++e) {
    const auto& [values, offset, order, squares] = entries[e];
    const auto count = static_cast<std::int64_t>(values.shape(0));
    require(values.shape(1) == static_cast<std::size_t>(dim) && (values.stride(1) == 1 || count == 0),
            "gradients must have one contiguous row of dim floats per occurrence");
    require(offset.size() == leave.size() + 1, "offsets must have one number more than there are rows");
    EntryGradients& entry = update.gradients.entry[e];
    entry = {values.data(), values.stride(0), offset.data(), order ? order->data() : nullptr};
    if (squares) set_squares(entry, *squares, values.shape(0));
    if (on_cuda(records))
      require(squares.has_value(), "on a device each gradient needs its mean square");
    else
      check_occurrences(offset.data(), update.writes.count, order ? order->data() : nullptr,
                        order ? static_cast<std::int64_t>(order->size()) : count, count);
  }
  if (!on_cuda(records)) check_writes(update.memory, table->extent, update.writes, update.gradients);
  return update;
}

void update_tables(const std::vector<Update>& given, float learning_rate, std::uintptr_t stream) {
  require(given.size() >= 1 && given.size() <= cuda::kMaxTables, "one to three tables are updated together");
  std::vector<TableUpdate> updates;
  for (const Update& each : given) updates.push_back(table_update(each));
  const bool is_cuda = on_cuda(std::get<3>(given.front()));
  const nb::gil_scoped_release release;
  if (is_cuda) return cuda::update(updates, learning_rate, {stream});
  for (const TableUpdate& each : updates)
    cpu::update(each.memory, each.writes, each.records, each.gradients, learning_rate, each.rounding);
}

void mean_squares(const ConstRows& values, const nb::ndarray<float, nb::ndim<1>, nb::c_contig>& squares,
                  std::uintptr_t stream) {
  const auto rows = static_cast<std::int64_t>(values.shape(0)), dim = static_cast<std::int64_t>(values.shape(1));
  require(dim >= 1 && squares.size() == values.shape(0) && (values.stride(1) == 1 || rows == 0),
          "values must have contiguous rows, and squares a number for each");
  const nb::gil_scoped_release release;
  if (squares.device_type() == nb::device::cuda::value)
    return cuda::mean_squares(values.data(), values.stride(0), rows, dim, squares.data(), {stream});
  cpu::mean_squares(values.data(), values.stride(0), rows, dim, squares.data());
}

RowEvictions evictions_of(const Vector<std::int64_t>& evicted, const std::optional<Vector<std::int64_t>>& first,
                          std::size_t rows) {
  require(evicted.size() == rows && first && first->size() == 1,
          "there must be an evicted row, or -1, for each row, and one first slot of the write-back buffer");
  return {evicted.data(), first->data()};
}

PreparedKernel prepare_write_back(const RowTable& table, const Vector<std::int64_t>& rows,
                                  const Vector<std::uint8_t>& leave, const Vector<std::int64_t>& target,
                                  const std::string& crossing, std::uint8_t wanted,
                                  const std::optional<Counter>& counter,
                                  const std::optional<Vector<std::int64_t>>& value,
                                  const std::optional<nb::ndarray<std::int32_t, nb::ndim<1>, nb::c_contig>>& turn,
                                  const std::optional<Vector<std::int64_t>>& evicted,
                                  const std::optional<Vector<std::int64_t>>& first_buffer_slot) {
  const RowMemory memory = table.memory;
  require(!counter || (table.is_cuda && value && turn && counter->size() == 1 && value->size() == 1 &&
                       turn->size() == 1),
          "a kernel that publishes runs on a CUDA device, and needs a counter, its value and a turn, one number each");
  const cuda::Publication publication =
      counter ? cuda::Publication{counter->data(), value->data(), reinterpret_cast<unsigned*>(turn->data())}
              : cuda::Publication{};
  require(rows.size() == leave.size() && rows.size() == target.size(), "rows, leave and target must be equally long");
  const RowWriteBacks write_backs{rows.data(),
                                  reinterpret_cast<const RowDestination*>(leave.data()),
                                  target.data(),
                                  static_cast<std::int64_t>(rows.size()),
                                  static_cast<RowDestination>(wanted),
                                  evicted ? evictions_of(*evicted, first_buffer_slot, rows.size()) : RowEvictions{}};
  const auto over = crossing_named(crossing);
  if (table.is_cuda)
    return {write_backs.count, [=](std::int64_t count, std::uintptr_t stream) {
              cuda::write_back_rows(memory, write_backs.first(count), {stream, over}, publication);
            }};
  return {write_backs.count, [=, extent = table.extent](std::int64_t count, std::uintptr_t) {
            const RowWriteBacks first = write_backs.first(count);
            check_row_write_backs(extent, first);
            cpu::write_back_rows(memory, first);
          }};
}

PreparedKernel prepare_stage_evicted(const RowTable& table, const Vector<std::int64_t>& target,
                                     const Vector<std::int64_t>& evicted,
                                     const Vector<std::int64_t>& first_buffer_slot) {
  const RowMemory memory = table.memory;
  const RowEvictions evictions = evictions_of(evicted, first_buffer_slot, target.size());
  const auto most = static_cast<std::int64_t>(target.size());
  if (table.is_cuda)
    return {most, [=, to = target.data()](std::int64_t count, std::uintptr_t stream) {
              cuda::stage_evicted(memory, evictions, to, count, {stream});
            }};
  return {most, [=, to = target.data(), extent = table.extent](std::int64_t count, std::uintptr_t) {
            check_evictions(extent, evictions, to, count);
            cpu::stage_evicted(memory, evictions, to, count);
          }};
}

void write_back_evicted(const RowTable& table, const Bytes& write_backs, std::uintptr_t stream) {
  require(write_backs.shape(1) == sizeof(WriteBack), "write-backs must be given as their bytes");
  const auto* list = reinterpret_cast<const WriteBack*>(write_backs.data());
  const auto count = static_cast<std::int64_t>(write_backs.shape(0));
  const nb::gil_scoped_release release;
  if (table.is_cuda) return cuda::write_back_evicted(table.memory, list, count, {stream});
  check_write_backs(table.memory, table.extent, list, count);
  cpu::write_back_evicted(table.memory, list, count);
}

void sum_segments(const ConstRows& values, const Vector<std::int32_t>& offset,
                  const std::optional<Vector<std::int32_t>>& order, const Rows& sums, std::uintptr_t stream,
                  bool adds) {
  const auto rows = static_cast<std::int64_t>(sums.shape(0)), dim = static_cast<std::int64_t>(sums.shape(1));
  const auto count = static_cast<std::int64_t>(values.shape(0));
  require(values.shape(1) == sums.shape(1) && (values.stride(1) == 1 || count == 0),
          "values and sums must have rows of one length, contiguous");
  require(offset.size() == sums.shape(0) + 1, "offsets must have one number more than there are sums");
  const EntryGradients segments{values.data(), values.stride(0), offset.data(), order ? order->data() : nullptr};
  const nb::gil_scoped_release release;
  if (on_cuda(sums)) return cuda::segment_sums(segments, rows, dim, sums.data(), {stream}, adds);
  check_occurrences(offset.data(), rows, segments.order, order ? static_cast<std::int64_t>(order->size()) : count,
                    count);
  cpu::segment_sums(segments, rows, dim, sums.data(), adds);
}

void multiply_complex(const ConstRows& x, const ConstRows& y, bool conjugate,
                      const nb::ndarray<float, nb::ndim<2>>& out, std::uintptr_t stream) {
  const auto of_one_shape = [&](const auto& rows) {
    return rows.shape(0) == out.shape(0) && rows.shape(1) == out.shape(1) && (rows.stride(1) == 1 || rows.size() == 0);
  };
  require(out.shape(1) % 2 == 0 && of_one_shape(x) && of_one_shape(y) && of_one_shape(out),
          "rows of complex numbers must be contiguous, of one even length, and as many in factors and product");
  const ComplexProduct product{x.data(), y.data(), out.data(), x.stride(0), y.stride(0), out.stride(0),
                               static_cast<std::int64_t>(out.shape(0)), static_cast<std::int64_t>(out.shape(1) / 2),
                               conjugate};
  const nb::gil_scoped_release release;
  if (on_cuda(out)) return cuda::multiply_complex(product, {stream});
  cpu::multiply_complex(product);
}

}  // namespace

void bind(nb::module_& module) {
  nb::class_<PreparedKernel>(
      module, "PreparedKernel",
      "A row kernel and its arrays, whose shapes have been checked: what steps repeat at the same addresses.")
      .def(
          "__call__",
          [](const PreparedKernel& self, std::int64_t rows, std::uintptr_t stream) {
            require(0 <= rows && rows <= self.most_rows, "the kernel was not prepared for so many rows");
            const nb::gil_scoped_release release;
            self.run(rows, stream);
          },
          "rows"_a, "stream"_a = 0, "For the first `rows` rows.");

  nb::class_<RowTable>(
      module, "RowTable",
      "A table as row kernels address it: host rows, a cache and staging, (n, stride) float32 each but "
      "staging (floats,). A record is dim elements, `state` floats of optimizer state, padding.")
      .def(nb::init<std::int64_t, const Rows&, const std::optional<Rows>&, const std::optional<Floats>&, std::int64_t,
                    const std::string&, const std::optional<RowTable::Noise>&>(),
           "dim"_a, "host"_a, "cache"_a.none() = nb::none(), "staging"_a.none() = nb::none(), "state"_a = 1,
           "element"_a = "fp32", "rounding"_a.none() = nb::none(),
           "element: of the embedding, fp32 or fp16; records of steps are in float32. rounding: by what fp16 rows are "
           "rounded at random where they are updated, (seed, table, which columns of whole rows these are: at most two "
           "ranges (first, count), none for all).");

  module.def("prepare_gather", &prepare_gather, "table"_a, "rows"_a, "source"_a, "records"_a, "crossing"_a = "bus",
             "part"_a = "all", nb::keep_alive<0, 1>(), nb::keep_alive<0, 2>(), nb::keep_alive<0, 3>(),
             nb::keep_alive<0, 4>(),
             "records[u] = record of rows[u]: from cache slot source[u], or, where source[u] is -1, from its host row. "
             "rows (U,) int64, source (U,) int32, records (>= U, stride). crossing: bus, small_table or awaited, see "
             "rows/cuda/plan_kernels.h. part: 'host' or 'cache' for the rows from there alone, or 'all'. Runs where "
             "`records` lies. IndexError on the CPU for a plan that points outside.");
  module.def(
      "prepare_write_back", &prepare_write_back, "table"_a, "rows"_a, "leave"_a, "target"_a, "crossing"_a = "bus",
      "wanted"_a = static_cast<std::uint8_t>(RowDestination::kWriteBackBuffer), "counter"_a.none() = nb::none(),
      "value"_a.none() = nb::none(), "turn"_a.none() = nb::none(), "evicted"_a.none() = nb::none(),
      "first_buffer_slot"_a.none() = nb::none(), nb::keep_alive<0, 1>(), nb::keep_alive<0, 2>(), nb::keep_alive<0, 3>(),
      nb::keep_alive<0, 4>(), nb::keep_alive<0, 7>(), nb::keep_alive<0, 8>(), nb::keep_alive<0, 9>(),
      nb::keep_alive<0, 10>(), nb::keep_alive<0, 11>(),
      "Copies the records of the rows with leave[u] == wanted (4: write-back buffer, or 5: published before sync) from "
      "slots target[u] of the cache to host rows rows[u]. rows (U,) int64, leave (U,) uint8, target (U,) int64. Runs "
      "where the cache lies. On a CUDA device `counter` then gets `value`, as by prepare_publish; turn: (1,) "
      "int32 there, zero at first, for the kernel's own use. evicted (U,) int64 and first_buffer_slot (1,) int64: "
      "with them goes row evicted[u], unless that is -1, from slot first_buffer_slot[0] + u.");
  module.def(
      "prepare_stage_evicted", &prepare_stage_evicted, "table"_a, "target"_a, "evicted"_a, "first_buffer_slot"_a,
      nb::keep_alive<0, 1>(), nb::keep_alive<0, 2>(), nb::keep_alive<0, 3>(), nb::keep_alive<0, 4>(),
      "Copies the records of cache slots target[u] whose evicted[u] is not -1 to slots first_buffer_slot[0] + u. "
      "target and evicted (U,) int64, first_buffer_slot (1,) int64. Runs where the cache lies.");
  module.def(
      "update_tables", &update_tables, "updates"_a, "learning_rate"_a, "stream"_a = 0,
      "Row-wise Adagrad for the rows of a step, of one to three tables together. updates: for each (RowTable, leave, "
      "target, records, entries, used, rounded, busy). leave (U,) uint8: 0 cache slot, 1 value to staging, 2 "
      "gradients to staging, 3 host row; target (U,) int64: slot, float in staging, or row. entries: at most two of "
      "(gradients (n, dim), offset (U + 1,) int32, order (n,) int32 or None, mean squares of the gradients (n,), or "
      "(ranks, n) over the columns of each rank, whose mean in the order of ranks is taken, which "
      "may be None on the CPU). used (1,) int32: how many rows there are, the others only pad; None: all. rounded: of "
      "rows in half precision, step (1,) int64 and ids of the rows (U,) int64. busy (1 + n or more,) int32, or None on "
      "the CPU: n, how many rows have more than FEW_OCCURRENCES in all entries together, then these rows, the ones "
      "with the most first. Runs where `records` lies.");
  module.attr("FEW_OCCURRENCES") = kFewOccurrences;
  module.def("mean_squares", &mean_squares, "values"_a, "squares"_a, "stream"_a = 0,
             "squares[i] (n,) = mean square of values[i] (n, dim), in the order of sums that updates are made of "
             "(csrc/table/mean_square.h). Runs where `squares` lies.");
  module.def(
      "write_back_evicted", &write_back_evicted, "table"_a, "write_backs"_a, "stream"_a = 0,
      "Copies records from cache slots to staging or host rows. write_backs: (n, 40) uint8, the bytes of WRITE_BACK.");
  module.def("segment_sums", &sum_segments, "values"_a, "offset"_a, "order"_a.none(), "sums"_a, "stream"_a = 0,
             "adds"_a = false,
             "sums[u] (U, dim) = values[order[i]] (n, dim) added up in order over offset[u] <= i < offset[u + 1]; "
             "offset (U + 1,) int32, order (n,) int32 or None. 0 for an empty segment. adds: they are added to what is "
             "there. Runs where `sums` lies, with the same bits everywhere.");
  module.def("multiply_complex", &multiply_complex, "x"_a, "y"_a, "conjugate"_a, "out"_a, "stream"_a = 0,
             "out = x y, or conj(x) y, of rows (n, 2 k) of k complex numbers, whose real parts come first. Runs where "
             "`out` lies, with the same bits everywhere.");
  module.def(
      "prepare_publish",
      [](const Counter& counter, const Vector<std::int64_t>& value) {
        require(counter.size() == 1 && value.size() == 1, "the counter and its value are one number each");
        return PreparedKernel{std::numeric_limits<std::int64_t>::max(),
                              [to = counter.data(), from = value.data()](std::int64_t, std::uintptr_t stream) {
                                cuda::publish(to, from, {stream});
                              }};
      },
      "counter"_a, "value"_a, nb::keep_alive<0, 1>(), nb::keep_alive<0, 2>(),
      "Stores value (1,) int64, read on the device, into a uint64 in registered host memory once all earlier work of "
      "the CUDA stream is visible there.");
}

}  // namespace frugal::bindings::kernels
