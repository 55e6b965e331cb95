#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <vector>

#include "bindings/bindings.h"
#include "bindings/exchange.h"
#include "comm/owner_lists.h"

namespace frugal::bindings::exchange {
namespace {

using Segment = nb::ndarray<std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Floats = nb::ndarray<float, nb::ndim<1>, nb::c_contig>;

// Mean squares over the columns of all ranks, from those over each rank's: on the CPU they are in `means`, on a device
// compute_gradients has put them into the exchange.
void exchange_mean_squares(Exchange& exchange, const Floats& means, std::uintptr_t stream) {
  const auto count = static_cast<std::int64_t>(means.size());
  if (count % 4 != 0 || count > exchange.host().floats().squares)
    throw std::invalid_argument("mean squares are exchanged four at a time, as many as the exchange has room for");
  const nb::gil_scoped_release release;
  if (means.device_type() != nb::device::cuda::value) return exchange.host().all_reduce_mean(means.data(), count);
  if (exchange.device().near) throw std::logic_error("near ranks only synchronise over mean squares");
  cuda::all_reduce_mean(exchange.device(), count, means.data(), stream);
}

// (rows (n,) int64, how many each rank has of them, how many of this rank's rows each owner has).
nb::tuple take(OwnerLists& lists) {
  auto rows = std::make_unique<std::vector<std::int64_t>>();
  std::vector<std::int64_t> counts;
  {
    const nb::gil_scoped_release release;
    lists.take(*rows, counts);
  }
  const auto half = counts.begin() + std::ssize(counts) / 2;
  const std::size_t shape[] = {rows->size()};
  std::int64_t* const data = rows->data();
  const nb::capsule owner(rows.release(),
                          [](void* of) noexcept { delete static_cast<std::vector<std::int64_t>*>(of); });
  return nb::make_tuple(nb::ndarray<nb::numpy, std::int64_t, nb::ndim<1>>(data, 1, shape, owner),
                        std::vector<std::int64_t>(counts.begin(), half), std::vector<std::int64_t>(half, counts.end()));
}

}  // namespace

void bind(nb::module_& module) {
  using Release = nb::call_guard<nb::gil_scoped_release>;
  nb::class_<OwnerLists>(module, "OwnerLists",
                         "Which rows the steps of several ranks use, handed to the rows' owners. See "
                         "csrc/comm/owner_lists.h. RuntimeError once a rank has failed or gone.")
      .def(
          "__init__",
          [](OwnerLists* self, const Segment& segment, int rank, int ranks, std::int64_t steps, std::int64_t max_rows) {
            new (self) OwnerLists(reinterpret_cast<std::byte*>(segment.data()), segment.nbytes(), rank, ranks, steps,
                                  max_rows);
          },
          "segment"_a, "rank"_a, "ranks"_a, "steps"_a, "max_rows"_a, nb::keep_alive<1, 2>(),
          "segment: (bytes_needed,) uint8, shared by all ranks, zero at first. steps: that a rank may be ahead.")
      .def_static("bytes_needed", &OwnerLists::bytes_needed, "ranks"_a, "steps"_a, "max_rows"_a)
      .def(
          "post",
          [](OwnerLists& self,
             const nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>& rows) {
            const nb::gil_scoped_release release;
            self.post({rows.data(), rows.size()});
          },
          "rows"_a, "This rank's next step uses rows (n,) int64, those of owner 0 first.")
      .def_prop_ro("ready", &OwnerLists::ready, "Whether take would not wait.")
      .def("take", &take,
           "(rows (n,) int64 of the next step that this rank owns, those of rank 0 first; how many each rank has "
           "there; how many of this rank's rows each owner has).")
      .def("begin", &OwnerLists::begin, "This rank runs its next step.")
      .def("meet", &OwnerLists::meet, Release(), "Between two steps: waits until all ranks have come here.")
      .def("fail", &OwnerLists::fail, "sentence"_a, "End all waiting, with the first sentence that any rank gives.");
  module.attr("MOST_DEVICE_RANKS") = kMostRanks;
  module.attr("MOST_HOST_RANKS") = kMostHostRanks;
  module.def("reach_each_other", &cuda::reach_each_other, "device"_a, "other"_a,
             "Whether two CUDA devices read each other's memory.");
  module.def(
      "exchange_bytes",
      [](int ranks, std::int64_t scores, std::int64_t weights, std::int64_t squares) {
        return HostExchange::bytes_needed(ranks, {scores, weights, squares});
      },
      "ranks"_a, "scores"_a, "weights"_a, "squares"_a,
      "Bytes of the memory that ranks share for an exchange of so many floats.");
  nb::class_<cuda::PeerBuffer>(module, "PeerBuffer",
                               "Zeroed memory of the current CUDA device that other processes' devices reach. "
                               "DeviceError if it is refused.")
      .def(nb::init<std::size_t, const std::string&>(), "bytes"_a, "what"_a,
           "what: it is for, as the end of a sentence.")
      .def_prop_ro("address", [](cuda::PeerBuffer& self) { return reinterpret_cast<std::uintptr_t>(self.data()); })
      .def(
          "handle",
          [](const cuda::PeerBuffer& self) {
            const std::string handle = self.handle();
            return nb::bytes(handle.data(), handle.size());
          },
          "For `open` in the processes of other ranks.")
      .def(
          "open",
          [](cuda::PeerBuffer& self, const nb::bytes& handle) {
            return reinterpret_cast<std::uintptr_t>(self.open({handle.c_str(), handle.size()}));
          },
          "handle"_a, "The address of another process's buffer, as long as this one lives.");
  nb::class_<Exchange>(module, "Exchange", "The collectives of ranks inside a step. See csrc/comm.")
      .def(
          "__init__",
          [](Exchange* self, const Segment& segment, int rank, int ranks, std::int64_t scores, std::int64_t weights,
             std::int64_t squares) {
            new (self) Exchange(reinterpret_cast<std::byte*>(segment.data()), segment.nbytes(), rank, ranks,
                                {scores, weights, squares});
          },
          "segment"_a, "rank"_a, "ranks"_a, "scores"_a, "weights"_a, "squares"_a, nb::keep_alive<1, 2>(),
          "segment: (exchange_bytes,) uint8, shared by all ranks, zero at first.")
      .def(
          "handle",
          [](Exchange& self) {
            const std::string handle = self.peer_memory().handle();
            return nb::bytes(handle.data(), handle.size());
          },
          "Of this rank's memory on the current CUDA device, for `connect` in the processes of the others.")
      .def(
          "connect",
          [](Exchange& self, const std::vector<nb::bytes>& handles) {
            std::vector<std::string> each;
            for (const nb::bytes& handle : handles) each.emplace_back(handle.c_str(), handle.size());
            self.peer_memory().connect(each);
          },
          "handles"_a,
          "With the handles of all ranks in order; with none the exchange goes through the segment, which must be "
          "registered. DeviceError if the system refuses.")
      .def(
          "barrier", [](Exchange& self, std::uintptr_t stream) { cuda::barrier(self.device(), stream); }, "stream"_a,
          "Enqueue a barrier of devices: later work on the stream reads what all ranks have written before theirs.")
      .def_prop_ro(
          "squares",
          [](Exchange& self) {
            return nb::make_tuple(reinterpret_cast<std::uintptr_t>(self.device().squares.here[0]),
                                  self.host().floats().squares);
          },
          "(address, floats) of the ranks' parts of mean squares in this rank's device memory: the first one's, and "
          "how far "
          "apart they are.")
      .def(
          "fail", [](Exchange& self, const std::string& sentence) { self.host().fail(sentence); }, "sentence"_a,
          "End all waiting, with the first sentence that any rank gives.")
      .def_prop_ro("rank", [](Exchange& self) { return self.host().rank(); })
      .def_prop_ro("ranks", [](Exchange& self) { return self.host().ranks(); })
      .def_prop_ro(
          "sentence", [](Exchange& self) { return self.host().sentence(); }, "What ended it, or an empty string.");
  module.def("exchange_mean_squares", &exchange_mean_squares, "exchange"_a, "means"_a, "stream"_a = 0,
             "means (n,), n a multiple of 4, becomes the mean squares over the columns of all ranks, from those over "
             "this rank's: what it held, or on a CUDA device what compute_gradients left in the exchange. Same bits "
             "everywhere; only enqueues on a CUDA device. Where devices reach each other's memory a `barrier` does "
             "instead, and "
             "update_tables takes the means of `squares`.");
}

}  // namespace frugal::bindings::exchange
