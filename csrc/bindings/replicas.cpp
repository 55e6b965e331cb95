#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <tuple>
#include <vector>

#include "bindings/bindings.h"
#include "bindings/column_exchange.h"
#include "bindings/row_arrays.h"
#include "memory/host_table.h"
#include "replicas/cpu/replica_updates.h"
#include "replicas/cuda/replica_updates.h"
#include "store/replicated_rows.h"

namespace frugal {
namespace {

using namespace bindings;
using nb::literals::operator""_a;
using Entry = std::tuple<ConstRows, Vector<std::int32_t>, std::optional<Vector<std::int32_t>>,
                         std::optional<Vector<float>>>;

// This rank's side of a table that all ranks hold as a whole.
class Replica {
 public:
  Replica(ColumnExchange& exchange, const ReplicaPart& part) : exchange_(exchange), part_(part) {
    require(part.rows >= 1 && part.dim >= 1 && part.entries >= 1 && part.entries <= kMaxEntries,
            "a replica has rows, and steps of one or two entries");
    const HostExchange& host = exchange.host();
    require(part.floats() <= host.floats(0) && part.floats() <= host.floats(1),
            "the exchange has too little room for the rows of a step");
  }

  HostExchange& host() { return exchange_.host(); }
  const ReplicaPart& part() const { return part_; }

  void send(const Vector<std::int64_t>& ids, const Vector<std::int32_t>& used, const std::vector<Entry>& given,
            std::uintptr_t stream) {
    cuda::ReplicaRows rows{ids.data(), used.data(), {}};
    require(static_cast<int>(given.size()) == part_.entries && used.size() == 1, "a step has its entries, and a count");
    require(static_cast<std::int64_t>(ids.size()) <= part_.rows, "a step has too many rows");
    const bool is_cuda = on_cuda(ids);
    for (std::size_t e = 0; e < given.size(); ++e) {
      const auto& [values, offset, order, squares] = given[e];
      const auto count = static_cast<std::int64_t>(values.shape(0));
      require(static_cast<std::int64_t>(values.shape(1)) == part_.dim && (values.stride(1) == 1 || count == 0),
              "gradients must have one contiguous row of dim floats per occurrence");
      require(offset.size() == ids.size() + 1, "offsets must have one number more than there are rows");
      require(!is_cuda || (squares && squares->size() >= values.shape(0)),
              "on a device each gradient needs its mean square");
      rows.entry[e] = {values.data(), values.stride(0), offset.data(), order ? order->data() : nullptr,
                       squares ? squares->data() : nullptr};
      if (!is_cuda)
        check_occurrences(offset.data(), used.data()[0], rows.entry[e].order,
                          order ? static_cast<std::int64_t>(order->size()) : count, count);
    }
    const nb::gil_scoped_release release;
    if (is_cuda) return cuda::send_sums(exchange_.device(), part_, rows, stream);
    cpu::put_sums(part_, {rows.ids, static_cast<std::size_t>(*rows.used)}, {rows.entry, given.size()},
                  host().next_part());
    host().post();
  }

  void receive(const Rows& records, float learning_rate, std::uintptr_t stream) {
    const auto stride = static_cast<std::int64_t>(records.shape(1));
    require(stride > part_.dim, "records have a state behind the embedding");
    const nb::gil_scoped_release release;
    if (on_cuda(records))
      return cuda::apply_sums(exchange_.device(), part_, records.data(), stride, learning_rate, stream);
    if (!host().await()) return;
    std::vector<const float*> of_ranks;
    for (int rank = 0; rank < host().ranks(); ++rank) of_ranks.push_back(host().met_part(rank));
    cpu::apply_sums(part_, of_ranks, records.data(), stride, learning_rate);
  }

  std::string sentence() { return exchange_.host().sentence(); }

 private:
  ColumnExchange& exchange_;
  const ReplicaPart part_;
};

}  // namespace

void bind_replicas(nb::module_& module) {
  nb::class_<Replica>(module, "Replica",
                      "A table of which every rank has a whole replica that it updates from the sums of all ranks. See "
                      "csrc/replicas.")
      .def(
          "__init__",
          [](Replica* self, ColumnExchange& exchange, std::int64_t rows, std::int64_t dim, int entries) {
            new (self) Replica(exchange, {rows, dim, entries});
          },
          "exchange"_a, "rows"_a, "dim"_a, "entries"_a, nb::keep_alive<1, 2>(),
          "rows: of a rank's step, at most; the same in all ranks. Both regions of the exchange have floats(...) of "
          "room.")
      .def_static(
          "floats", [](std::int64_t rows, std::int64_t dim, int entries) { return ReplicaPart{rows, dim, entries}.floats(); },
          "rows"_a, "dim"_a, "entries"_a, "What a rank puts out in a step, at most.")
      .def("send", &Replica::send, "ids"_a, "used"_a, "entries"_a, "stream"_a = 0,
           "Put out the sums of this rank's gradients of rows ids (U,) int64, of which the first used (1,) int32 are "
           "not only there to pad. entries: as of update_tables. Runs where `ids` lie.")
      .def("receive", &Replica::receive, "records"_a, "learning_rate"_a, "stream"_a = 0,
           "Wait for the sums of all ranks and apply them to records (rows, stride), by row-wise Adagrad. Nothing "
           "happens once a rank has failed. Runs where `records` lie.")
      .def("fail", [](Replica& self, const std::string& sentence) { self.host().fail(sentence); }, "sentence"_a,
           "End all waiting, with the first sentence that any rank gives.")
      .def_prop_ro("rank", [](Replica& self) { return self.host().rank(); })
      .def_prop_ro("sentence", &Replica::sentence, "What ended it, or an empty string.");
  nb::class_<ReplicatedRows, StepRows>(module, "ReplicatedRows",
                                       "Rows of a replica on the CPU, which a step's end updates from all ranks.")
      .def(
          "__init__",
          [](ReplicatedRows* self, HostTable& home, HostTable& replica, Replica& exchanged, float learning_rate) {
            new (self) ReplicatedRows(home, replica, exchanged.host(), exchanged.part(), learning_rate);
          },
          "home"_a, "replica"_a, "exchanged"_a, "learning_rate"_a, nb::keep_alive<1, 2>(), nb::keep_alive<1, 3>(),
          nb::keep_alive<1, 4>(),
          "home: the table that all ranks see, and rank 0 trains. replica: that of this rank, which becomes like home "
          "when the first step begins.")
      .def_prop_ro("steps_run", &ReplicatedRows::steps_run, "Steps that have ended.");
}

}  // namespace frugal
