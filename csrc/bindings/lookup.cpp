#include "store/lookup.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <future>
#include <optional>
#include <stdexcept>
#include <string>

#include "base/parallel/background.h"
#include "base/random/start_numbers.h"
#include "bindings/arrays.h"
#include "bindings/bindings.h"
#include "rows/check_plan.h"
#include "rows/cpu/summed_update.h"
#include "store/row_lookup.h"

namespace frugal::bindings::lookup {
namespace {

using Release = nb::call_guard<nb::gil_scoped_release>;
using Ids = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Bytes = nb::ndarray<std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Order = nb::ndarray<const std::int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Matrix = nb::ndarray<float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Values = nb::ndarray<const float, nb::ndim<2>, nb::device::cpu>;

std::int64_t count_of(const Ids& ids) { return static_cast<std::int64_t>(ids.size()); }

std::byte* packing_memory(const Bytes& memory, std::int64_t count) {
  require(memory.size() >= Lookup::most_packed_bytes(count), "there is no room for the packed lookup");
  return reinterpret_cast<std::byte*>(memory.data());
}

class SortedAhead {
 public:
  // The ids must stay as they are until the result has been taken, and the memory as long as that is used.
  SortedAhead(const Ids& ids, std::int64_t rows, const std::optional<Bytes>& memory, int owners)
      : done_(run_in_background([this, keys = ids.data(), count = count_of(ids), rows, owners,
                                 packed = memory ? packing_memory(*memory, count_of(ids)) : nullptr] {
          lookup_.emplace(keys, count, rows, LookupThreads::kBackground, packed, owners);
        })) {}
  ~SortedAhead() {
    if (done_.valid()) done_.wait();
  }
  SortedAhead(const SortedAhead&) = delete;
  SortedAhead& operator=(const SortedAhead&) = delete;

  bool ready() const {
    return !done_.valid() || done_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }
  Lookup take() {
    if (!done_.valid()) throw std::logic_error("a lookup is taken once");
    done_.get();
    return std::move(*lookup_);
  }

 private:
  std::optional<Lookup> lookup_;
  std::future<void> done_;
};

template <class T>
nb::object view(std::span<const T> values, nb::handle lookup) {
  return numpy_view(values.data(), values.size(), lookup);
}

// The numbers of the gradients, which must be there, in the lookup's order.
const std::int32_t* order_of(const Lookup& lookup, const std::optional<Order>& order, const Values& gradients,
                             const RowLayout& layout, const SummedUpdate& update) {
  layout.require_floats();
  require(gradients.shape(1) == static_cast<std::size_t>(layout.dim) &&
              (gradients.stride(1) == 1 || gradients.shape(0) == 0),
          "gradients must have rows of dim floats, contiguous");
  require(update.rule().state_floats(layout.dim) <= layout.state, "the table has no room for the optimizer's state");
  require(!order || order->size() == lookup.order().size(), "the order must have a number for each occurrence");
  const std::int32_t* const numbers = order ? order->data() : lookup.order().data();
  check_occurrences(lookup.offset().data(), static_cast<std::int64_t>(lookup.rows().size()), numbers,
                    static_cast<std::int64_t>(lookup.order().size()), static_cast<std::int64_t>(gradients.shape(0)));
  return numbers;
}

// Returns a number below 0 if there is one among the ids.
std::int64_t copy_part(const std::int64_t* from, std::int64_t* out, std::int64_t count, std::int64_t padding) {
  std::int64_t signs = 0;  // without a branch for each, so that the compiler takes several at a time
  for (std::int64_t i = 0; i < count; ++i) {
    signs |= from[i];
    out[i] = from[i] == padding ? kNoRow : from[i];
  }
  return signs;
}

void check_out(const Matrix& out, std::int64_t count, std::int64_t dim) {
  require(out.shape(0) == static_cast<std::size_t>(count) && out.shape(1) == static_cast<std::size_t>(dim),
          "the matrix must have one row per id and one column per dimension");
}

template <class Numbers>
void fill_by_key(const Numbers& numbers, const Ids& keys, const Matrix& out) {
  check_out(out, static_cast<std::int64_t>(keys.size()), static_cast<std::int64_t>(out.shape(1)));
  const std::uint64_t dim = out.shape(1);
  for (std::size_t i = 0; i < keys.size(); ++i)
    numbers.fill(out.data() + i * dim, static_cast<std::uint64_t>(keys.data()[i]) * dim,
                 static_cast<std::int64_t>(dim));
}

void check_step(const StepRows& rows, const Lookup& lookup) {
  const auto announced = rows.rows();
  require(
      announced.size() == lookup.rows().size() && std::equal(announced.begin(), announced.end(), lookup.rows().begin()),
      "the running step has other rows than the lookup");
}

}  // namespace

void bind(nb::module_& module) {
  module.attr("NO_ROW") = kNoRow;
  nb::class_<SummedUpdate, RowUpdate>(module, "SummedUpdate",
                                      "One update per row and step, from the sum of its gradients; see "
                                      "csrc/table/summed_update.h.")
      .def(
          "__init__",
          [](SummedUpdate* self, const std::string& optimizer) {
            new (self) SummedUpdate(optimizer_named(optimizer));
          },
          "optimizer"_a, "optimizer: sgd, rowwise_adagrad, adagrad, adam or rowwise_adam.")
      .def("next", &SummedUpdate::next, "learning_rate"_a, "epsilon"_a = 0.0f, "largest_norm"_a = 0.0f,
           "beta1"_a = 0.0, "beta2"_a = 0.0,
           "Before each update: its rates. largest_norm: of a row's sum of gradients, 0 for any. beta1, beta2: Adam's.")
      .def("keep", &SummedUpdate::keep, "steps"_a,
           "Where several ranks train: keep the rates of the last `steps` steps, for flush threads.")
      .def_prop_rw(
          "skips", [](const SummedUpdate& self) { return self.rule().skips; }, &SummedUpdate::set_skips,
          "Whether rows leave steps as they are, until this is taken back.")
      .def_prop_rw("updates", &SummedUpdate::updates, &SummedUpdate::set_updates, "How many there have been.")
      .def(
          "state_floats", [](const SummedUpdate& self, std::int64_t dim) { return self.rule().state_floats(dim); },
          "dim"_a, "Floats of state behind a row of `dim` floats.");

  nb::class_<Lookup>(module, "Lookup",
                     "The ids of a lookup, sorted out. ids (n,) int64 in [0, rows), or NO_ROW for none; IndexError.")
      .def(
          "__init__",
          [](Lookup* self, const Ids& ids, std::int64_t rows, int owners) {
            require(owners >= 1, "rows have at least one owner");
            const nb::gil_scoped_release release;
            new (self) Lookup(ids.data(), static_cast<std::int64_t>(ids.size()), rows, LookupThreads::kCallers, nullptr,
                              owners);
          },
          "ids"_a, "rows"_a, "owners"_a = 1)
      .def("__len__", &Lookup::count)
      .def_prop_ro(
          "rows", [](nb::handle self) { return view(nb::cast<Lookup&>(self).rows(), self); },
          "(U,) int64: the rows, distinct, ascending; of several owners those of owner 0 first, which are divisible by "
          "owners.")
      .def_prop_ro(
          "inverse", [](nb::handle self) { return view(nb::cast<Lookup&>(self).inverse(), self); },
          "(n,) int32: ids[i] == rows[inverse[i]], U where there is no row.")
      .def_prop_ro(
          "offset", [](nb::handle self) { return view(nb::cast<Lookup&>(self).offset(), self); },
          "(U + 1,) int32: where the occurrences of each row begin in `order`.")
      .def_prop_ro(
          "order", [](nb::handle self) { return view(nb::cast<Lookup&>(self).order(), self); },
          "int32: positions in ids, row after row, those of a row ascending.")
      .def_prop_ro("packed", &Lookup::packed,
                   "Where rows, inverse, offset and order begin in the packed lookup, in bytes, and how long it is.")
      .def_prop_ro("distinct", [](const Lookup& self) { return self.rows().size(); }, "How many rows there are.")
      .def(
          "pack",
          [](const Lookup& self, const Bytes& memory) {
            std::byte* const out = packing_memory(memory, self.count());
            const nb::gil_scoped_release release;
            self.pack(out);
          },
          "memory"_a, "Copy these arrays to memory (most_packed_bytes,) uint8.")
      .def_static("most_packed_bytes", &Lookup::most_packed_bytes, "count"_a,
                  "Bytes that the packed lookup of so many ids takes at most.");

  nb::class_<SortedAhead>(
      module, "SortedAhead",
      "A lookup that a thread in the background sorts out; one of Python would wait for the interpreter.")
      .def(nb::init<const Ids&, std::int64_t, const std::optional<Bytes>&, int>(), "ids"_a, "rows"_a,
           "memory"_a.none() = nb::none(), "owners"_a = 1, nb::keep_alive<1, 2>(), nb::keep_alive<1, 4>(),
           "memory: where the packed lookup is to lie.")
      .def_prop_ro("ready", &SortedAhead::ready, "Whether take would not wait.")
      .def("take", &SortedAhead::take, nb::call_guard<nb::gil_scoped_release>(), nb::keep_alive<0, 1>(),
           "The Lookup, once. IndexError for an id outside the table.");

  module.def(
      "exchange_records",
      [](const StepRows& rows, const nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>& at,
         const Matrix& records) {
        const auto source = rows.source();
        const auto floats = static_cast<std::size_t>(rows.layout().record_floats());
        check_out(records, static_cast<std::int64_t>(at.size()), static_cast<std::int64_t>(floats));
        for (std::size_t i = 0; i < at.size(); ++i) {
          if (at.data()[i] < 0 || static_cast<std::size_t>(at.data()[i]) >= source.size())
            throw std::out_of_range("the running step has no row number " + std::to_string(at.data()[i]));
          std::swap_ranges(records.data() + i * floats, records.data() + (i + 1) * floats, source[at.data()[i]]);
        }
      },
      "rows"_a, "positions"_a, "records"_a,
      "Before the running step is read: its rows number positions (k,) int64 begin anew with records (k, "
      "record_floats), which are set to what they held before.");
  module.def(
      "key_uniform",
      [](const Ids& keys, const Matrix& out, float low, float high, std::uint64_t seed) {
        fill_by_key(CounterUniform(seed, 0, low, high), keys, out);
      },
      "keys"_a, "out"_a, "low"_a, "high"_a, "seed"_a,
      "out (n, dim) = the numbers that HostTable.init_uniform with stream 0 gives to rows `keys` (n,) int64.");
  module.def(
      "key_normal",
      [](const Ids& keys, const Matrix& out, float mean, float deviation, std::uint64_t seed) {
        fill_by_key(CounterNormal(seed, 0, mean, deviation), keys, out);
      },
      "keys"_a, "out"_a, "mean"_a, "deviation"_a, "seed"_a, "The same for HostTable.init_normal.");
  module.def(
      "copy_ids",
      [](const Ids& ids, const nb::ndarray<std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>& to,
         std::int64_t padding) {
        require(to.size() == ids.size(), "ids are copied to an array of their length");
        const nb::gil_scoped_release release;
        constexpr std::int64_t kTogether = 1 << 17;  // fewer are copied before another thread is awake
        const std::int64_t count = count_of(ids), tasks = (count + kTogether - 1) / kTogether;
        const std::int64_t* const from = ids.data();
        std::int64_t* const out = to.data();
        std::atomic<bool> wrong{false};
        share_in_background(tasks, [&](std::int64_t task) {
          const std::int64_t begin = task * kTogether, end = std::min(count, begin + kTogether);
          if (copy_part(from + begin, out + begin, end - begin, padding) < 0)
            wrong.store(true, std::memory_order_relaxed);
        });
        for (std::int64_t i = 0; wrong.load(std::memory_order_relaxed) && i < count; ++i)
          if (from[i] < 0)
            throw std::out_of_range("id " + std::to_string(from[i]) + " at position " + std::to_string(i) +
                                    " is negative");
      },
      "ids"_a, "to"_a, "padding"_a,
      "to (n,) int64 = ids (n,) int64, but NO_ROW where an id is `padding`; padding NO_ROW: none is. IndexError for an "
      "id below 0.");
  module.def(
      "gather_ids",
      [](HostTable& table, const Ids& ids, const Matrix& out) {
        table.layout().require_floats();
        check_out(out, static_cast<std::int64_t>(ids.size()), table.layout().dim);
        const nb::gil_scoped_release release;
        gather_ids(table, ids.data(), static_cast<std::int64_t>(ids.size()), out.data());
      },
      "table"_a, "ids"_a, "out"_a, "out (n, dim) = embeddings of ids (n,) int64, zeros for NO_ROW. IndexError.");
  module.def(
      "gather_lookup",
      [](const StepRows& rows, const Lookup& lookup, const Matrix& out) {
        rows.layout().require_floats();
        check_out(out, lookup.count(), rows.layout().dim);
        check_step(rows, lookup);
        const nb::gil_scoped_release release;
        gather_lookup(rows, lookup, out.data());
      },
      "rows"_a, "lookup"_a, "out"_a, "out (n, dim) = embeddings of the lookup of the running step.");
  module.def(
      "update_table",
      [](HostTable& table, const Lookup& lookup, const Values& gradients, const SummedUpdate& update,
         const std::optional<Order>& order) {
        const std::int32_t* const numbers = order_of(lookup, order, gradients, table.layout(), update);
        require(lookup.rows().empty() || lookup.rows().back() < table.rows(), "the lookup is of a larger table");
        const nb::gil_scoped_release release;
        update_table(table, lookup, gradients.data(), gradients.stride(0), numbers, update.rule());
      },
      "table"_a, "lookup"_a, "gradients"_a, "update"_a, "order"_a.none() = nb::none(),
      "Rows of the lookup are updated in the table. gradients (m, dim): occurrence i of lookup.order has gradient "
      "order[i], which is lookup.order[i] if not given.");
  module.def(
      "update_step",
      [](const StepRows& rows, const Lookup& lookup, const Values& gradients, const SummedUpdate& update,
         const std::optional<Order>& order) {
        const std::int32_t* const numbers = order_of(lookup, order, gradients, rows.layout(), update);
        check_step(rows, lookup);
        const nb::gil_scoped_release release;
        update_step(rows, lookup, gradients.data(), gradients.stride(0), numbers, update.rule());
      },
      "rows"_a, "lookup"_a, "gradients"_a, "update"_a, "order"_a.none() = nb::none(),
      "As update_table, for the running step: its rows are written to where they leave for.");
}

}  // namespace frugal::bindings::lookup
