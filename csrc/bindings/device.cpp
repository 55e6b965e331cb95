#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <tuple>
#include <vector>

#include "base/device/copy.h"
#include "base/device/device_error.h"
#include "base/device/devices.h"
#include "base/device/stream_event.h"
#include "bindings/bindings.h"
#include "bindings/whole_words.h"
#include "rows/cuda/host_pieces.h"
#include "table/host_registration.h"

namespace frugal::bindings::device {
namespace {

nb::tuple cuda_devices(bool with_free_memory) {
  const DeviceList list = list_devices(with_free_memory);
  nb::list devices;
  for (const Device& device : list.devices) {
    nb::dict entry;
    entry["index"] = device.index;
    entry["name"] = device.name.c_str();
    entry["capability"] = nb::make_tuple(device.major, device.minor);
    entry["multiprocessors"] = device.multiprocessors;
    entry["total_bytes"] = device.total_bytes;
    entry["free_bytes"] = device.free_bytes < 0 ? nb::none() : nb::object(nb::int_(device.free_bytes));
    entry["pci_bus"] = device.pci_bus.c_str();
    entry["reads_host_by_same_address"] = device.reads_host_by_same_address;
    devices.append(entry);
  }
  return nb::make_tuple(devices, list.reason.c_str());
}

void fetch_pieces(const std::vector<std::tuple<std::uintptr_t, std::uintptr_t, std::int64_t>>& given,
                  std::uintptr_t stream) {
  if (given.size() > cuda::kMostPieces) throw std::invalid_argument("too many pieces for one fetch");
  std::vector<cuda::HostPiece> pieces;
  for (const auto& [to, from, bytes] : given) {
    pieces.push_back({reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes});
    bindings::require_whole_words(pieces.back(), "pieces begin and end at whole words of 16 bytes");
  }
  cuda::fetch(pieces, {stream});
}

}  // namespace

void bind(nb::module_& module) {
  nb::exception<DeviceError>(module, "DeviceError", PyExc_RuntimeError);
  module.def("cuda_devices", &cuda_devices, "with_free_memory"_a = true,
             "The CUDA devices that this process sees, as dicts, and the reason why there are none ('' if there are). "
             "Asking for free memory makes a context on each device.");
  nb::class_<HostRegistration>(
      module, "HostRegistration",
      "Makes the pages of a CPU array readable and writable in place by all CUDA devices of this "
      "process, for as long as this object lives. DeviceError, and nothing registered, if refused.")
      .def(
          "__init__",
          [](HostRegistration* self, const nb::ndarray<nb::c_contig, nb::device::cpu>& array) {
            constexpr std::uintptr_t kPage = 4096;
            const auto first = reinterpret_cast<std::uintptr_t>(array.data()) / kPage * kPage;
            const auto last = reinterpret_cast<std::uintptr_t>(array.data()) + array.nbytes();
            const nb::gil_scoped_release release;
            new (self) HostRegistration(reinterpret_cast<void*>(first), (last - first + kPage - 1) / kPage * kPage);
          },
          "array"_a, nb::keep_alive<1, 2>())
      .def_prop_ro("nbytes", &HostRegistration::bytes);

  nb::class_<StreamEvent>(
      module, "StreamEvent",
      "An event in the order of work of the streams of CUDA device number `device`, which are given as "
      "numbers. See csrc/base/device/stream_event.h.")
      .def(nb::init<int>(), "device"_a)
      .def("record", &StreamEvent::record, "stream"_a, "From now on it is behind all that the stream has been given.")
      .def("wait_in_stream", &StreamEvent::wait_in_stream, "stream"_a,
           "What the stream is given from now on waits for it.")
      .def("passed", &StreamEvent::passed, "Whether the work before it is done. DeviceError if that has failed.")
      .def(
          "wait",
          [](const StreamEvent& self) {
            if (self.passed()) return;  // mostly, and then nobody else need get the interpreter
            const nb::gil_scoped_release release;
            self.wait();
          },
          "Returns when the work before it is done. DeviceError if that has failed.");
  module.def("enqueue_copy", [](std::uintptr_t to, std::uintptr_t from, std::size_t bytes, std::uintptr_t stream) {
    enqueue_copy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes, stream);
  }, "to"_a, "source"_a, "count"_a, "stream"_a,
             "Copies `count` bytes from one address to another, of a CUDA device or of pinned or registered memory, in "
             "the order of a stream.");
  module.def("fetch_pieces", &fetch_pieces, "pieces"_a, "stream"_a,
             "As enqueue_copy from pinned or registered memory to a CUDA device, of up to eight pieces (to, source, "
             "count) in one launch. Addresses and counts are multiples of 16.");
}

}  // namespace frugal::bindings::device
