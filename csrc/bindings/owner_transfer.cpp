// Owner transfer: one rank sharded by columns moves a row over the bus for all of them.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <string>
#include <vector>

#include "bindings/bindings.h"
#include "bindings/exchange.h"
#include "bindings/prepared_kernel.h"
#include "bindings/prepared_prefetch.h"
#include "bindings/row_arrays.h"
#include "comm/cpu/owner_transfer.h"
#include "comm/cuda/owner_transfer.h"
#include "comm/owner_buffers.h"

namespace frugal::bindings::owner_transfer {
namespace {

using Matrix = bindings::Rows;  // steps have Rows of their own
using Turn = nb::ndarray<std::int32_t, nb::ndim<1>, nb::c_contig>;
using WriteBacks = nb::ndarray<const std::uint8_t, nb::ndim<2>, nb::c_contig>;

// This rank's side of a table whose rows their owners move, once the buffers of all ranks can be reached.
class OwnerTransfer {
 public:
  OwnerTransfer(Exchange& exchange, const Matrix& host, const RowTable& table,
                const std::vector<std::uintptr_t>& buffers)
      : extent_{static_cast<std::int64_t>(host.shape(0)), table.extent.slots}, is_cuda_(table.is_cuda) {
    const int rank = exchange.host().rank(), ranks = exchange.host().ranks();
    require(static_cast<int>(buffers.size()) == ranks && ranks <= kMostRanks,
            "one buffer for each rank, of eight at most");
    require(static_cast<std::int64_t>(host.shape(1)) == ranks * table.memory.stride,
            "host rows must have as many columns for each rank as its cache has");
    for (const std::uintptr_t each : buffers) {
      require(each % kExchangeLine == 0, "buffers begin at whole lines");
      buffers_.push_back(reinterpret_cast<char*>(each));
    }
    RowMemory part = table.memory;
    part.host_rows = host.data();
    rows_ = owner_transfer_rows(part, rank, buffers_, &exchange.host().words().failed);
  }

  PreparedKernel prepare_prefetch(const Vector<std::int64_t>& ids, const Vector<std::int32_t>& source,
                                  const Matrix& records, const Vector<std::int64_t>& number, const Turn& turn,
                                  const std::string& crossing) const {
    const RowReads reads = reads_of(ids, source, records);
    return {reads.count,
            [=, prefetch = prefetch(records, number, turn, crossing)](std::int64_t count, std::uintptr_t stream) {
              prefetch({reads.rows, reads.source, count}, {}, stream);
            }};
  }

  PreparedPrefetch prepare_whole_prefetch(const bindings::Bytes& block, const bindings::Bytes& plan,
                                          const Vector<std::int64_t>& ids, const Vector<std::int32_t>& source,
                                          const Matrix& records, const Vector<std::int64_t>& number, const Turn& turn,
                                          const std::string& crossing) const {
    return {block, plan, ids, source, records, prefetch(records, number, turn, crossing)};
  }

  PreparedKernel prepare_write_back(const Vector<std::int64_t>& ids, const Vector<std::uint8_t>& leave,
                                    const Vector<std::int64_t>& target, const Counter& counter,
                                    const Vector<std::int64_t>& number, const Turn& turn,
                                    const std::string& crossing) const {
    require(ids.size() == leave.size() && ids.size() == target.size(), "rows, leave and target must be equally long");
    require(counter.size() == 1 && number.size() == 1 && turn.size() == 1,
            "the counter, its value and the turn are one number each");
    const RowWriteBacks write_backs{ids.data(), reinterpret_cast<const RowDestination*>(leave.data()), target.data(),
                                    static_cast<std::int64_t>(ids.size())};
    const OwnerTransferRows rows = rows_;
    const cuda::Publication publication{counter.data(), number.data(), reinterpret_cast<unsigned*>(turn.data())};
    if (is_cuda_)
      return {write_backs.count, [=, over = crossing_named(crossing)](std::int64_t count, std::uintptr_t stream) {
                cuda::write_back(rows, write_backs.first(count), publication, {stream, over});
              }};
    return {write_backs.count, [=, extent = extent_](std::int64_t count, std::uintptr_t) {
              const RowWriteBacks first = write_backs.first(count);
              check_row_write_backs(extent, first);
              cpu::write_back(rows, first, static_cast<std::uint64_t>(*publication.value));
              std::atomic_ref(*publication.counter).store(static_cast<std::uint64_t>(*publication.value),
                                                          std::memory_order_release);
            }};
  }

  void write_back_evicted(const WriteBacks& write_backs, std::int64_t number, std::uintptr_t stream) const {
    require(write_backs.shape(1) == sizeof(WriteBack), "write-backs must be given as their bytes");
    const auto* const list = reinterpret_cast<const WriteBack*>(write_backs.data());
    const auto count = static_cast<std::int64_t>(write_backs.shape(0));
    const nb::gil_scoped_release release;
    if (is_cuda_) return cuda::write_back_evicted(rows_, list, count, static_cast<std::uint64_t>(number), {stream});
    check_write_backs(rows_.part, extent_, list, count);
    cpu::write_back_evicted(rows_, list, count, static_cast<std::uint64_t>(number));
  }

 private:
  // Rows that this rank owns, to the records of all ranks, and pieces.
  PreparedPrefetch::Prefetch prefetch(const Matrix& records, const Vector<std::int64_t>& number, const Turn& turn,
                                      const std::string& crossing) const {
    require(static_cast<std::int64_t>(records.shape(1)) == rows_.part.record_stride(),
            "records must be as far apart as rows of floats are");
    require(number.size() == 1 && turn.size() == 1, "the number of a step and the turn are one number each");
    const OwnerTransferRecords of_ranks = owner_transfer_records(rows_.prefetched.rank, buffers_, records.data());
    const OwnerTransferRows rows = rows_;
    const std::int64_t* const step = number.data();
    if (is_cuda_)
      return [=, over = crossing_named(crossing), taken = reinterpret_cast<unsigned*>(turn.data())](
                 const RowReads& reads, std::span<const cuda::HostPiece> pieces, std::uintptr_t stream) {
        cuda::prefetch(rows, reads, of_ranks, step, taken, pieces, {stream, over});
      };
    return [=, extent = extent_](const RowReads& reads, std::span<const cuda::HostPiece>, std::uintptr_t) {
      check_reads(rows.part, extent, reads);
      cpu::prefetch(rows, reads, of_ranks, static_cast<std::uint64_t>(*step));
    };
  }

  OwnerTransferRows rows_{};
  std::vector<char*> buffers_;  // of all ranks, as this one addresses them
  const MemoryExtent extent_;
  const bool is_cuda_;
};

}  // namespace

void bind(nb::module_& module) {
  module.attr("OWNER_WORD_BYTES") = kOwnerWordBytes;
  nb::class_<OwnerTransfer>(module, "OwnerTransfer",
                            "This rank's side of a table whose rows their owners move. See csrc/comm.")
      .def(
          "__init__",
          [](OwnerTransfer* self, Exchange& exchange, const Matrix& host, const RowTable& table,
             const std::vector<std::uintptr_t>& buffers) { new (self) OwnerTransfer(exchange, host, table, buffers); },
          "exchange"_a, "host"_a, "table"_a, "buffers"_a, nb::keep_alive<1, 2>(), nb::keep_alive<1, 3>(),
          nb::keep_alive<1, 4>(),
          "host (rows, ranks * stride): the columns of each rank behind each other. table: this rank's columns. "
          "buffers: addresses of all ranks' memory, OWNER_WORD_BYTES and then the slots of the cache; their "
          "records lie anywhere behind those, at the same place in each.")
      .def("prepare_prefetch", &OwnerTransfer::prepare_prefetch, "rows"_a, "source"_a, "records"_a, "number"_a,
           "turn"_a, "crossing"_a = "bus", nb::keep_alive<0, 1>(), nb::keep_alive<0, 2>(), nb::keep_alive<0, 3>(),
           nb::keep_alive<0, 4>(), nb::keep_alive<0, 5>(), nb::keep_alive<0, 6>(),
           "Those rows whose source is -1 and which this rank owns, to the records of all ranks; waits until all have "
           "come to `number` (1,) int64, that of the step plus one. records: this rank's, in its buffer. turn (1,) "
           "int32, zero at first, for the kernel's own use.")
      .def("prepare_whole_prefetch", &OwnerTransfer::prepare_whole_prefetch, "block"_a, "plan"_a, "rows"_a, "source"_a,
           "records"_a, "number"_a, "turn"_a, "crossing"_a = "bus", nb::keep_alive<0, 1>(), nb::keep_alive<0, 2>(),
           nb::keep_alive<0, 3>(), nb::keep_alive<0, 4>(), nb::keep_alive<0, 5>(), nb::keep_alive<0, 6>(),
           nb::keep_alive<0, 7>(), nb::keep_alive<0, 8>(),
           "A PreparedPrefetch: these rows, with the step's block and its plan, of which rows, source and number are "
           "parts.")
      .def("prepare_write_back", &OwnerTransfer::prepare_write_back, "rows"_a, "leave"_a, "target"_a, "counter"_a,
           "number"_a, "turn"_a, "crossing"_a = "bus", nb::keep_alive<0, 1>(), nb::keep_alive<0, 2>(),
           nb::keep_alive<0, 3>(), nb::keep_alive<0, 4>(), nb::keep_alive<0, 5>(), nb::keep_alive<0, 6>(),
           nb::keep_alive<0, 7>(),
           "Those rows of the write-back buffer which this rank owns, from the slots of all ranks to their "
           "host rows, when all ranks have come to `number`. `counter` (1,) uint64 then gets it.")
      .def("write_back_evicted", &OwnerTransfer::write_back_evicted, "write_backs"_a, "number"_a, "stream"_a = 0,
           "Evicted rows that this rank owns, to their host rows, when all ranks have come to `number`. write_backs: "
           "as for write_back_evicted.");
}

}  // namespace frugal::bindings::owner_transfer
