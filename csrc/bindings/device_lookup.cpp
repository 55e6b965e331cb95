// Lookups in the memory of a device: what their steps do with ids there. The memory decides which kernels run.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>

#include <memory>
#include <optional>
#include <utility>

#include "bindings/arrays.h"
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
#include "store/device_lookup.h"
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

using Ids = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Bytes = nb::ndarray<std::uint8_t, nb::ndim<1>, nb::c_contig>;
using Numbers = nb::ndarray<std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

constexpr std::size_t kCounts = sizeof(cuda::SortedCounts) / sizeof(std::int64_t);

SortMemory sort_memory(const Bytes& sorted, const Bytes& scratch, const Numbers& rows, const Numbers& counts) {
  const auto most = static_cast<std::int64_t>(rows.size());
  require(sorted.size() >= SortMemory::sorted_bytes(most) && counts.size() == kCounts,
          "there must be room for the sorted ids and their counts");
  return {most, reinterpret_cast<std::byte*>(sorted.data()), reinterpret_cast<std::byte*>(scratch.data()),
          scratch.size(), rows.data(), reinterpret_cast<cuda::SortedCounts*>(counts.data())};
}

// A lookup where its ids are sorted, and rows of its steps. Addresses come as numbers: a tensor takes as long to pass
// as a launch.
struct PlacedLookup {
  bool is_cuda;
  RowExpansion expansion;
  EntryGradients segments;  // whose values each call brings
  float* sums;
  std::int64_t occurrences;
  int device;

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
  LookupMemory(const Bytes& block, const Rows& records, const Rows& sums)
      : is_cuda_(on_cuda(records)),
        device_(records.device_id()),
        block_(reinterpret_cast<const std::byte*>(block.data())),
        bytes_(block.size()),
        records_{records.data(), static_cast<std::int64_t>(records.shape(1)), static_cast<std::int64_t>(sums.shape(1)),
                 static_cast<std::int64_t>(records.shape(0)), nullptr, 0},
        sums_(sums.data()) {
    require(sums.shape(0) == records.shape(0) && sums.shape(1) <= records.shape(1),
            "there must be a sum of dim floats for each record");
  }

  // One that is packed, once a copy has brought it to the block.
  PlacedLookup at(const Lookup& lookup) const {
    const auto begin = lookup.packed();
    require(begin.back() <= bytes_, "the lookup has no room there");
    const auto array = [&](int which) {
      return reinterpret_cast<const std::int32_t*>(block_ + begin[static_cast<std::size_t>(which)]);
    };
    return at(lookup.count(), lookup.rows().size(), array(1), array(2), array(3), std::ssize(lookup.order()));
  }
  PlacedLookup at(const DeviceLookup& lookup) const {
    require(is_cuda_, "this lookup lies on a CUDA device, and the records do not");
    const cuda::SortedIds& there = lookup.on_device();
    return at(lookup.count(), lookup.rows().size(), there.inverse, there.offset, there.order, lookup.occurrences());
  }

 private:
  PlacedLookup at(std::int64_t count, std::size_t distinct, const std::int32_t* inverse, const std::int32_t* offset,
                  const std::int32_t* order, std::int64_t occurrences) const {
    require(std::cmp_less_equal(distinct, records_.rows), "the lookup has more rows than there are records");
    return {is_cuda_,
            {records_.records, records_.stride, records_.dim, static_cast<std::int64_t>(distinct), inverse, count},
            {nullptr, 0, offset, order},
            sums_,
            occurrences,
            device_};
  }

  bool is_cuda_;
  int device_;
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

  nb::class_<SortMemory>(module, "SortMemory",
                         "Memory of sorts of up to n ids. sorted (sorted_bytes(n),) and scratch (scratch_bytes(n),) "
                         "uint8 of a CUDA device; rows (n,) and counts (COUNTS,) int64 of pinned memory.")
      .def("__init__",
           [](SortMemory* self, const Bytes& sorted, const Bytes& scratch, const Numbers& rows, const Numbers& counts) {
             new (self) SortMemory(sort_memory(sorted, scratch, rows, counts));
           },
           "sorted"_a, "scratch"_a, "rows"_a, "counts"_a, nb::keep_alive<1, 2>(), nb::keep_alive<1, 3>(),
           nb::keep_alive<1, 4>(), nb::keep_alive<1, 5>())
      .def_ro("most", &SortMemory::most)
      .def_static("sorted_bytes", &SortMemory::sorted_bytes, "count"_a)
      .def_static("scratch_bytes", &cuda::sort_bytes, "count"_a)
      .def_ro_static("COUNTS", &kCounts);

  nb::class_<DeviceLookup>(module, "DeviceLookup",
                           "As Lookup, of ids (n,) int64 in pinned memory that a CUDA device sorts, which has all "
                           "arrays but the rows. The sort is enqueued on a stream of the device with that number.")
      .def("__init__",
           [](DeviceLookup* self, const Ids& ids, std::int64_t rows, int owners, std::shared_ptr<SortMemory> memory,
              int device, std::uintptr_t stream) {
             require(owners >= 1, "rows have at least one owner");
             new (self) DeviceLookup(ids.data(), static_cast<std::int64_t>(ids.size()), rows, owners,
                                     std::move(memory), device, stream);
           },
           "ids"_a, "rows"_a, "owners"_a, "memory"_a, "device"_a, "stream"_a, nb::keep_alive<1, 2>())
      .def("__len__", &DeviceLookup::count)
      .def_prop_ro("ready", &DeviceLookup::ready, "Whether take would not wait.")
      .def(
          "take",
          [](nb::handle self) {
            DeviceLookup& lookup = nb::cast<DeviceLookup&>(self);
            {
              const nb::gil_scoped_release release;
              lookup.wait();
            }
            return nb::borrow(self);
          },
          "The lookup itself once it is sorted. IndexError for an id outside the table.")
      .def_prop_ro(
          "rows",
          [](nb::handle self) {
            const auto rows = nb::cast<DeviceLookup&>(self).rows();
            return numpy_view(rows.data(), rows.size(), self);
          },
          "(U,) int64: as those of Lookup.")
      .def_prop_ro("distinct", [](const DeviceLookup& self) { return self.rows().size(); }, "How many rows there are.")
      .def_prop_ro("memory", &DeviceLookup::memory)
      .def_prop_ro("device", &DeviceLookup::device, "The number of the device.")
      .def_prop_ro(
          "rows_address",
          [](const DeviceLookup& self) { return reinterpret_cast<std::uintptr_t>(self.on_device().rows); },
          "Where the rows lie on the device.");

  nb::class_<PlacedLookup>(module, "PlacedLookup",
                           "A lookup with the memory of its steps. Addresses are numbers, and nobody can check them.")
      .def("read", &PlacedLookup::read, "out"_a, "stream"_a, Release(),
           "out (n, dim) = the embeddings of its ids, from the memory's records; zeros for ids without a row.")
      .def_prop_ro(
          "order",
          [](nb::handle self) {
            const PlacedLookup& lookup = nb::cast<PlacedLookup&>(self);
            const std::size_t shape[] = {static_cast<std::size_t>(lookup.occurrences)};
            auto* const order = const_cast<std::int32_t*>(lookup.segments.order);  // as torch wants it; nobody writes
            return nb::cast(nb::ndarray<nb::pytorch, std::int32_t, nb::ndim<1>>(
                order, 1, shape, self, nullptr, nb::dtype<std::int32_t>(),
                lookup.is_cuda ? nb::device::cuda::value : nb::device::cpu::value, lookup.device));
          },
          "As that of Lookup, a tensor where the lookup lies.")
      .def("sum_up", &PlacedLookup::sum_up, "gradients"_a, "stride"_a, "count"_a, "order"_a, "stream"_a, Release(),
           "The memory's sums = those of each row's gradients (count, dim), `stride` floats apart, in the lookup's "
           "order, or in one of its length (an address, 0 for none).");

  nb::class_<LookupMemory>(
      module, "LookupMemory",
      "Where a device has the packed lookup of a step, the records (U, stride) of its rows and the sums (U, dim) of "
      "their gradients.")
      .def(nb::init<const Bytes&, const Rows&, const Rows&>(), "block"_a, "records"_a, "sums"_a, nb::keep_alive<1, 2>(),
           nb::keep_alive<1, 3>(), nb::keep_alive<1, 4>())
      .def("at", nb::overload_cast<const Lookup&>(&LookupMemory::at, nb::const_), "lookup"_a, nb::keep_alive<0, 1>(),
           nb::keep_alive<0, 2>(), "The PlacedLookup.")
      .def("at", nb::overload_cast<const DeviceLookup&>(&LookupMemory::at, nb::const_), "lookup"_a,
           nb::keep_alive<0, 1>(), nb::keep_alive<0, 2>(), "Of one that the device has sorted, where that is.");
}

}  // namespace frugal::bindings::device_lookup
