#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <utility>
#include <vector>

#include "bindings/arrays.h"
#include "bindings/bindings.h"
#include "bindings/exchange.h"
#include "comm/cpu/row_exchange.h"
#include "comm/cuda/row_exchange.h"
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

nb::tuple take(OwnerLists& lists) {
  std::vector<std::int64_t> rows;
  OwnedRows owned;
  {
    const nb::gil_scoped_release release;
    owned = lists.take(rows);
  }
  return nb::make_tuple(to_numpy(std::move(rows)), owned);
}

// One rank's side of an exchange of rows, whose calls count themselves.
class RankRowExchange {
 public:
  RankRowExchange(const OwnerLists& lists, int rank, const std::vector<std::uintptr_t>& buffers, std::int64_t max_rows,
                  std::int64_t dim, const nb::ndarray<std::int32_t, nb::ndim<1>, nb::c_contig>& turn)
      : turn_(reinterpret_cast<unsigned*>(turn.data())),
        is_cuda_(turn.device_type() == nb::device::cuda::value) {
    std::vector<char*> each;
    for (const std::uintptr_t buffer : buffers) each.push_back(reinterpret_cast<char*>(buffer));
    exchange_ = row_exchange(rank, each, lists.failed(), max_rows, dim);
  }

  void send_values(std::uintptr_t values, const OwnedRows& owned, std::uintptr_t stream) {
    const auto* const from = reinterpret_cast<const float*>(values);
    if (is_cuda_) return cuda::send_values(exchange_, owned, from, ++number_, turn_, stream);
    cpu::send_values(exchange_, owned, from, ++number_);
  }

  void fetch_sums(std::uintptr_t sums, const OwnedRows& owned, std::uintptr_t stream) {
    auto* const to = reinterpret_cast<float*>(sums);
    if (is_cuda_) return cuda::fetch_sums(exchange_, owned, to, ++number_, stream);
    cpu::fetch_sums(exchange_, owned, to, ++number_);
  }

 private:
  RowExchange exchange_{};
  std::uint64_t number_ = 0;
  unsigned* turn_;
  bool is_cuda_;
};

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
           "(rows (n,) int64 of the next step that this rank owns, those of rank 0 first; whose they are).")
      .def("introduce", &OwnerLists::introduce, "handle"_a,
           "Tell all ranks by which handle they reach this one's buffer for a RowExchange.")
      .def("handles", &OwnerLists::handles, Release(), "Of all ranks in order; waits for them.")
      .def("look", &OwnerLists::look, "Look whether the other ranks are still there.")
      .def("begin", &OwnerLists::begin, "This rank runs its next step.")
      .def("meet", &OwnerLists::meet, Release(), "Between two steps: waits until all ranks have come here.")
      .def("fail", &OwnerLists::fail, "sentence"_a, "End all waiting, with the first sentence that any rank gives.");
  nb::class_<OwnedRows>(module, "OwnedRows", "Which of an owner's rows of a step are whose.");
  nb::class_<RankRowExchange>(module, "RowExchange",
                              "Values of rows from their owners to the ranks, and sums of gradients back. See "
                              "csrc/comm/row_exchange.h.")
      .def(nb::init<const OwnerLists&, int, const std::vector<std::uintptr_t>&, std::int64_t, std::int64_t,
                    const nb::ndarray<std::int32_t, nb::ndim<1>, nb::c_contig>&>(),
           "lists"_a, "rank"_a, "buffers"_a, "max_rows"_a, "dim"_a, "turn"_a, nb::keep_alive<1, 2>(),
           nb::keep_alive<1, 7>(),
           "buffers: addresses of all ranks' memory of buffer_bytes, which outlive this. turn (1,) int32, zero at "
           "first: on the device where the rows are.")
      .def_static(
          "buffer_bytes",
          [](std::int64_t max_rows, std::int64_t dim) {
            return kRankWordBytes + 2 * box_floats(max_rows, dim) * sizeof(float);
          },
          "max_rows"_a, "dim"_a)
      .def_static(
          "boxes",
          [](std::int64_t max_rows, std::int64_t dim) {
            const std::size_t inbox = kRankWordBytes;
            return nb::make_tuple(inbox, inbox + box_floats(max_rows, dim) * sizeof(float));
          },
          "max_rows"_a, "dim"_a, "The first bytes of the inbox and of the outbox of a buffer.")
      .def("send_values", &RankRowExchange::send_values, "values"_a, "owned"_a, "stream"_a, Release(),
           "From the address of values (n, dim) of the rows that this rank owns into the inboxes of the ranks that "
           "look them up.")
      .def("fetch_sums", &RankRowExchange::fetch_sums, "sums"_a, "owned"_a, "stream"_a, Release(),
           "To the address of sums (n, dim) of the rows that this rank owns from the outboxes of all ranks.");
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
          "how far apart they are.")
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
             "instead, and update_tables takes the means of `squares`.");
}

}  // namespace frugal::bindings::exchange
