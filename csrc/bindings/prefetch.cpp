#include "rows/cuda/prefetch.h"

#include <nanobind/stl/string.h>

#include <cstring>

#include "bindings/bindings.h"
#include "bindings/prepared_prefetch.h"
#include "rows/cpu/plan_kernels.h"

namespace frugal::bindings {

void PreparedPrefetch::run(std::uintptr_t packed, std::uintptr_t cell, std::uintptr_t next, std::uintptr_t place,
                           std::uintptr_t stream) const {
  cuda::HostPiece all[] = {pieces_[0], pieces_[1], {reinterpret_cast<void*>(place), nullptr, pieces_[1].bytes}};
  all[0].from = reinterpret_cast<const void*>(packed);
  all[1].from = reinterpret_cast<const void*>(cell);
  all[2].from = reinterpret_cast<const void*>(next);
  const std::span<const cuda::HostPiece> pieces(all, next == 0 ? 2 : 3);
  for (const cuda::HostPiece& piece : pieces) require_whole_words(piece, kWholeWords);
  if (!on_cuda_) {
    for (const cuda::HostPiece& piece : pieces)
      std::memcpy(piece.to, piece.from, static_cast<std::size_t>(piece.bytes));
    return prefetch_(reads_, pieces, stream);
  }
  RowReads reads = reads_;  // of the plan where it comes from, since it is on its way
  reads.rows = reinterpret_cast<const std::int64_t*>(cell + static_cast<std::uintptr_t>(rows_offset_));
  reads.source = reinterpret_cast<const std::int32_t*>(cell + static_cast<std::uintptr_t>(source_offset_));
  prefetch_(reads, pieces, stream);
}

namespace prefetch {
namespace {

PreparedPrefetch prepare_prefetch(const RowTable& table, const Bytes& block, const Bytes& plan,
                                  const Vector<std::int64_t>& rows, const Vector<std::int32_t>& source,
                                  const Rows& records, const std::string& crossing) {
  table.check_records(records);
  const RowMemory memory = table.memory;
  float* const to = records.data();
  if (bindings::on_cuda(records))
    return {block,
            plan,
            rows,
            source,
            records,
            [=, over = bindings::crossing_named(crossing)](
                const RowReads& reads, std::span<const cuda::HostPiece> pieces, std::uintptr_t stream) {
              cuda::prefetch(memory, reads, to, pieces, {stream, over});
            }};
  return {block,
          plan,
          rows,
          source,
          records,
          [=, extent = table.extent](const RowReads& reads, std::span<const cuda::HostPiece>, std::uintptr_t) {
            check_reads(memory, extent, reads);
            cpu::gather(memory, reads, to);
          }};
}

}  // namespace

void bind(nb::module_& module) {
  nb::class_<PreparedPrefetch>(module, "PreparedPrefetch",
                               "What a step prefetches from the host, by one kernel: its block and its plan, (bytes,) "
                               "uint8 each, and those of its rows whose source is -1.")
      .def("__call__", &PreparedPrefetch::run, "packed"_a, "cell"_a, "next"_a, "place"_a, "stream"_a,
           nb::call_guard<nb::gil_scoped_release>(),
           "From a packed block and a plan at these addresses, of pinned or registered memory or of the device. next: "
           "that of a later step's plan in such memory, which comes to `place` on the device with them; 0: none does.");
  module.def(
      "prepare_prefetch", &prepare_prefetch, "table"_a, "block"_a, "plan"_a, "rows"_a, "source"_a, "records"_a,
      "crossing"_a, nb::keep_alive<0, 1>(), nb::keep_alive<0, 2>(), nb::keep_alive<0, 3>(), nb::keep_alive<0, 4>(),
      nb::keep_alive<0, 5>(), nb::keep_alive<0, 6>(),
      "A PreparedPrefetch, whose rows come as by prepare_gather(part=\"host\"). rows (U,) int64 and source (U,) int32 "
      "are parts of `plan`. Runs where `records` lies.");
}

}  // namespace prefetch
}  // namespace frugal::bindings
