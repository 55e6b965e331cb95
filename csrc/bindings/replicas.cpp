#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <tuple>
#include <vector>

#include "bindings/bindings.h"
#include "bindings/exchange.h"
#include "bindings/row_arrays.h"
#include "comm/cpu/replica_updates.h"
#include "comm/cpu/shared_updates.h"
#include "comm/cuda/replica_updates.h"
#include "comm/cuda/shared_updates.h"
#include "store/replicated_rows.h"
#include "table/host_table.h"

namespace frugal::bindings::replicas {
namespace {

using Entry = std::tuple<ConstRows, Vector<std::int32_t>, std::optional<Vector<std::int32_t>>,
                         std::optional<Vector<float>>>;

// This rank's side of a table that all ranks hold as a whole.
class Replica {
 public:
  Replica(Exchange& exchange, const ReplicaPart& part) : exchange_(exchange), part_(part) {
    require(part.rows >= 1 && part.dim >= 1 && part.entries >= 1 && part.entries <= kMaxEntries,
            "a replica has rows, and steps of one or two entries");
    const HostExchange& host = exchange.host();
    require(part.floats() <= host.floats().scores && part.floats() <= host.floats().squares,
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

  void receive(const bindings::Rows& records, float learning_rate, std::uintptr_t stream) {
    const auto stride = static_cast<std::int64_t>(records.shape(1));
    require(stride > part_.dim, "records have a state behind the embedding");
    const nb::gil_scoped_release release;
    if (on_cuda(records))
      return cuda::apply_sums(exchange_.device(), part_, records.data(), stride, learning_rate, stream);
    if (!host().await()) return;
    std::vector<const float*> of_ranks;
    for (int rank = 0; rank < host().ranks(); ++rank) of_ranks.push_back(host().part_of(rank));
    cpu::apply_sums(part_, of_ranks, records.data(), stride, learning_rate);
  }

  std::string sentence() { return exchange_.host().sentence(); }

 private:
  Exchange& exchange_;
  const ReplicaPart part_;
};

using PlannedRows = std::tuple<Vector<std::int64_t>, Vector<std::uint8_t>, Vector<std::int64_t>, Vector<std::int32_t>>;

// This rank's side of a table whose shared rows are changed in collectives.
class SharedTable {
 public:
  SharedTable(Exchange& exchange, const SharedPart& part, std::vector<Floats> staging)
      : exchange_(exchange), part_(part), staging_(std::move(staging)) {
    require(
        part.rows >= 1 && part.entries >= 1 && part.entries <= kMaxEntries && part.floats() <= host().floats().scores,
        "the exchange has too little room for the rows of a step");
    require(static_cast<int>(staging_.size()) == host().ranks() && host().ranks() <= kMostRanks,
            "there is a staging of each rank, of eight at most");
  }

  HostExchange& host() { return exchange_.host(); }

  void barrier(bool is_cuda, std::uintptr_t stream) {
    const nb::gil_scoped_release release;
    if (is_cuda) return cuda::barrier(exchange_.device(), stream);
    complete_ = host().barrier();
  }

  void put(const PlannedRows& planned, const std::vector<Vector<std::int32_t>>& offsets, std::uintptr_t stream) {
    SharedRows rows = rows_of(planned);
    require(static_cast<int>(offsets.size()) == part_.entries, "a step has its entries");
    for (std::size_t e = 0; e < offsets.size(); ++e) {
      require(offsets[e].size() == std::get<0>(planned).size() + 1, "offsets must have one number more than rows");
      rows.offset[e] = offsets[e].data();
    }
    const bool is_cuda = on_cuda(std::get<0>(planned));
    const nb::gil_scoped_release release;
    if (is_cuda) return cuda::put_shared(exchange_.device(), part_, rows, stream);
    cpu::put_shared(part_, rows, reinterpret_cast<std::int32_t*>(host().part(ExchangeRegion::kScores, host().rank())));
  }

  void apply(const PlannedRows& planned, const RowTable& table, const bindings::Rows& records, float learning_rate,
             std::uintptr_t stream) {
    const SharedRows rows = rows_of(planned);
    table.check_records(records);
    require(records.shape(0) >= std::get<0>(planned).size() && !table.memory.is_half(),
            "there is a record of each row, which is in float32");
    SharedMemory memory{table.memory.dim, table.memory.stride, records.data(), table.memory.host_rows, {}};
    for (std::size_t rank = 0; rank < staging_.size(); ++rank) memory.staging[rank] = staging_[rank].data();
    const bool is_cuda = on_cuda(records);
    const nb::gil_scoped_release release;
    if (is_cuda) return cuda::apply_shared(exchange_.device(), part_, rows, memory, learning_rate, stream);
    if (!complete_) return;
    std::vector<const std::int32_t*> of_ranks;
    for (int rank = 0; rank < host().ranks(); ++rank)
      of_ranks.push_back(reinterpret_cast<const std::int32_t*>(host().part(ExchangeRegion::kScores, rank)));
    cpu::apply_shared(part_, host().rank(), of_ranks, rows, memory, learning_rate);
  }

 private:
  SharedRows rows_of(const PlannedRows& planned) const {
    const auto& [ids, leave, target, used] = planned;
    require(ids.size() == leave.size() && ids.size() == target.size() && used.size() == 1 &&
                static_cast<std::int64_t>(ids.size()) <= part_.rows,
            "a plan has an id, a leave and a target of each row, and no more rows than a step has");
    return {ids.data(), reinterpret_cast<const RowDestination*>(leave.data()), target.data(), used.data(), {}};
  }

  Exchange& exchange_;
  const SharedPart part_;
  const std::vector<Floats> staging_;
  bool complete_ = true;
};

}  // namespace

void bind(nb::module_& module) {
  nb::class_<SharedTable>(module, "SharedTable",
                          "A host table of which ranks change shared rows in collectives. See "
                          "csrc/comm/shared_rows.h. The plan of a step's rows: ids (U,) int64, leave (U,) "
                          "uint8, target (U,) int64, used (1,) int32. Runs where the ids lie.")
      .def(
          "__init__",
          [](SharedTable* self, Exchange& exchange, std::int64_t rows, int entries, std::vector<Floats> staging) {
            new (self) SharedTable(exchange, {rows, entries}, std::move(staging));
          },
          "exchange"_a, "rows"_a, "entries"_a, "staging"_a, nb::keep_alive<1, 2>(),
          "rows: of a rank's step, at most. staging: of all ranks. The exchange has floats(rows, entries) of room for "
          "raw scores.")
      .def_static(
          "floats", [](std::int64_t rows, int entries) { return SharedPart{rows, entries}.floats(); }, "rows"_a,
          "entries"_a, "What a rank publishes in a step.")
      .def("barrier", &SharedTable::barrier, "is_cuda"_a, "stream"_a = 0,
           "Wait for all ranks, or until one has failed.")
      .def("put", &SharedTable::put, "planned"_a, "offsets"_a, "stream"_a = 0,
           "Publish where this rank's gradients of shared rows are. offsets: of each entry, (U + 1,) int32.")
      .def("apply", &SharedTable::apply, "planned"_a, "table"_a, "records"_a, "learning_rate"_a, "stream"_a = 0,
           "After the barrier: apply all gradients of the rows of which this rank is the first that has them, to "
           "the records that this rank has read, and store them into their host rows.")
      .def(
          "fail", [](SharedTable& self, const std::string& sentence) { self.host().fail(sentence); }, "sentence"_a)
      .def_prop_ro("sentence", [](SharedTable& self) { return self.host().sentence(); });
  nb::class_<Replica>(module, "Replica",
                      "A table of which every rank has a whole replica that it updates from the sums of all ranks. See "
                      "csrc/comm.")
      .def(
          "__init__",
          [](Replica* self, Exchange& exchange, std::int64_t rows, std::int64_t dim, int entries) {
            new (self) Replica(exchange, {rows, dim, entries});
          },
          "exchange"_a, "rows"_a, "dim"_a, "entries"_a, nb::keep_alive<1, 2>(),
          "rows: of a rank's step, at most; the same in all ranks. The exchange has floats(...) of room for raw "
          "scores, and as many for mean squares.")
      .def_static(
          "floats",
          [](std::int64_t rows, std::int64_t dim, int entries) { return ReplicaPart{rows, dim, entries}.floats(); },
          "rows"_a, "dim"_a, "entries"_a, "What a rank publishes in a step, at most.")
      .def("send", &Replica::send, "ids"_a, "used"_a, "entries"_a, "stream"_a = 0,
           "Publish the sums of this rank's gradients of rows ids (U,) int64, of which the first used (1,) int32 are "
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
          [](ReplicatedRows* self, HostTable& host, HostTable& replica, Replica& exchanged, float learning_rate) {
            new (self) ReplicatedRows(host, replica, exchanged.host(), exchanged.part(), learning_rate);
          },
          "host"_a, "replica"_a, "exchanged"_a, "learning_rate"_a, nb::keep_alive<1, 2>(), nb::keep_alive<1, 3>(),
          nb::keep_alive<1, 4>(),
          "host: the table that all ranks see, and rank 0 trains. replica: that of this rank, which becomes like host "
          "when the first step begins.")
      .def_prop_ro("steps_run", &ReplicatedRows::steps_run, "Steps that have ended.");
}

}  // namespace frugal::bindings::replicas
