// Lookups in the memory of a device: what their steps do with ids there. The memory decides which kernels run.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>

#include <optional>

#include "bindings/bindings.h"
#include "bindings/prepared_kernel.h"
#include "bindings/row_arrays.h"
#include "rows/check_plan.h"
#include "rows/cpu/plan_kernels.h"
#include "rows/cpu/segment_sums.h"
#include "rows/cpu/summed_update.h"
#include "rows/cuda/plan_kernels.h"
#include "rows/cuda/segment_sums.h"
#include "rows/cuda/summed_update.h"
#include "store/lookup.h"
#include "table/summed_update.h"

namespace frugal::bindings::device_lookup {
namespace {

using Release = nb::call_guard<nb::gil_scoped_release>;

PreparedKernel prepare_update(const RowTable& table, const Vector<std::uint8_t>& leave,
                              const Vector<std::int64_t>& target, const Rows& records, const Rows& sums,
                              const SummedUpdate& update) {
  const RowMemory memory = table.memory;
  table.check_records(records);
  require(!memory.is_half() && update.rule().state_floats(memory.dim) <= memory.state,
          "rows are updated from sums where they are in float32, with room for the optimizer's state");
  require(leave.size() == target.size() && records.shape(0) >= leave.size() && sums.shape(0) >= leave.size() &&
              sums.shape(1) == static_cast<std::size_t>(memory.dim),
          "leave and target must be equally long, with a record and a sum of dim floats for each");
  const RowWrites all{reinterpret_cast<const RowDestination*>(leave.data()), target.data(),
                      static_cast<std::int64_t>(leave.size())};
  const float *const from = records.data(), *const sum = sums.data();
  if (on_cuda(records))
    return {all.count, [=, &update](std::int64_t count, std::uintptr_t stream) {
              cuda::update_from_sums(memory, {all.leave, all.target, count}, from, sum, update.rule(), {stream});
            }};
  return {all.count, [=, &update, extent = table.extent](std::int64_t count, std::uintptr_t) {
            const RowWrites first{all.leave, all.target, count};
            check_writes(memory, extent, first, StepGradients{});
            cpu::update_from_sums(memory, first, from, sum, update.rule());
          }};
}

// A packed lookup in device memory. Addresses come as numbers: a tensor takes as long to pass as a launch.
struct PlacedLookup {
  bool is_cuda;
  RowExpansion expansion;
  EntryGradients segments;  // whose values each call brings
  float* sums;
  std::int64_t occurrences;

  void read(std::uintptr_t out, std::uintptr_t stream) const {
    float* const to = reinterpret_cast<float*>(out);
    if (is_cuda) return cuda::expand(expansion, to, {stream});
    cpu::expand(expansion, to);
  }

  void sum_up(std::uintptr_t gradients, std::int64_t stride, std::int64_t count, std::uintptr_t order,
              std::uintptr_t stream) const {
    EntryGradients given{reinterpret_cast<const float*>(gradients), stride, segments.offset,
                         order != 0 ? reinterpret_cast<const std::int32_t*>(order) : segments.order};
    if (is_cuda) return cuda::segment_sums(given, expansion.rows, expansion.dim, sums, {stream});
    check_occurrences(given.offset, expansion.rows, given.order, occurrences, count);
    cpu::segment_sums(given, expansion.rows, expansion.dim, sums);
  }
};

class LookupMemory {
 public:
  LookupMemory(const nb::ndarray<std::uint8_t, nb::ndim<1>, nb::c_contig>& block, const Rows& records,
               const Rows& sums)
      : is_cuda_(on_cuda(records)),
        block_(reinterpret_cast<const std::byte*>(block.data())),
        bytes_(block.size()),
        records_{records.data(), static_cast<std::int64_t>(records.shape(1)), static_cast<std::int64_t>(sums.shape(1)),
                 static_cast<std::int64_t>(records.shape(0)), nullptr, 0},
        sums_(sums.data()) {
    require(sums.shape(0) == records.shape(0) && sums.shape(1) <= records.shape(1),
            "there must be a sum of dim floats for each record");
  }

  PlacedLookup at(const Lookup& lookup) const {
    const auto begin = lookup.packed();
    const auto distinct = static_cast<std::int64_t>(lookup.rows().size());
    require(begin.back() <= bytes_ && distinct <= records_.rows, "the lookup has no room there");
    const auto array = [&](int which) {
      return reinterpret_cast<const std::int32_t*>(block_ + begin[static_cast<std::size_t>(which)]);
    };
    return {is_cuda_,
            {records_.records, records_.stride, records_.dim, distinct, array(1), lookup.count()},
            {nullptr, 0, array(2), array(3)},
            sums_,
            static_cast<std::int64_t>(lookup.order().size())};
  }

 private:
  bool is_cuda_;
  const std::byte* block_;
  std::size_t bytes_;
  RowExpansion records_;  // of all rows that there is room for
  float* sums_;
};

}  // namespace

void bind(nb::module_& module) {
  module.def(
      "prepare_update", &prepare_update, "table"_a, "leave"_a, "target"_a, "records"_a, "sums"_a, "update"_a,
      nb::keep_alive<0, 1>(), nb::keep_alive<0, 2>(), nb::keep_alive<0, 3>(), nb::keep_alive<0, 4>(),
      nb::keep_alive<0, 5>(), nb::keep_alive<0, 6>(),
      "A PreparedKernel: rows of a step leave as planned, updated from sums (U, dim). leave (U,) uint8 and target "
      "(U,) int64 as update_tables takes them. Runs where `records` lies.");

  nb::class_<PlacedLookup>(module, "PlacedLookup",
                           "A lookup whose packed arrays are in a LookupMemory when its calls run there. Addresses are "
                           "numbers, and nobody can check them.")
      .def("read", &PlacedLookup::read, "out"_a, "stream"_a, Release(),
           "out (n, dim) = the embeddings of its ids, from the memory's records; zeros for ids without a row.")
      .def("sum_up", &PlacedLookup::sum_up, "gradients"_a, "stride"_a, "count"_a, "order"_a, "stream"_a, Release(),
           "The memory's sums = those of each row's gradients (count, dim), `stride` floats apart, in the lookup's "
           "order, "
           "or in one of its length (an address, 0 for none).");

  nb::class_<LookupMemory>(
      module, "LookupMemory",
      "Where a device has the packed lookup of a step, the records (U, stride) of its rows and the "
      "sums (U, dim) of their gradients.")
      .def(nb::init<const nb::ndarray<std::uint8_t, nb::ndim<1>, nb::c_contig>&, const Rows&, const Rows&>(), "block"_a,
           "records"_a, "sums"_a, nb::keep_alive<1, 2>(), nb::keep_alive<1, 3>(), nb::keep_alive<1, 4>())
      .def("at", &LookupMemory::at, "lookup"_a, nb::keep_alive<0, 1>(), "The PlacedLookup.");
}

}  // namespace frugal::bindings::device_lookup
