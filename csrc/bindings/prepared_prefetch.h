// The prefetch of a step by one kernel: its block, its plan and its rows that come from the host.
#pragma once

#include <nanobind/ndarray.h>

#include <cstdint>
#include <functional>
#include <span>
#include <utility>

#include "bindings/row_arrays.h"
#include "bindings/whole_words.h"

namespace frugal::bindings {

using Bytes = nb::ndarray<std::uint8_t, nb::ndim<1>, nb::c_contig>;

// Pieces are checked when it is made, and where they come from when it runs.
class PreparedPrefetch {
 public:
  // Rows, and on a CUDA device also the pieces, in one launch on the stream. On the CPU they are there already.
  using Prefetch =
      std::function<void(const RowReads& reads, std::span<const cuda::HostPiece> pieces, std::uintptr_t stream)>;

  // rows and source: parts of `plan`.
  PreparedPrefetch(const Bytes& block, const Bytes& plan, const Vector<std::int64_t>& rows,
                   const Vector<std::int32_t>& source, const Rows& records, Prefetch prefetch)
      : pieces_{{block.data(), nullptr, static_cast<std::int64_t>(block.size())},
                {plan.data(), nullptr, static_cast<std::int64_t>(plan.size())}},
        reads_(reads_of(rows, source, records)),
        rows_offset_(offset_in(plan, rows)),
        source_offset_(offset_in(plan, source)),
        on_cuda_(on_cuda(records)),
        prefetch_(std::move(prefetch)) {
    reads_.part = ReadPart::kHost;
    require(on_cuda(block) == on_cuda_ && on_cuda(plan) == on_cuda_, "block, plan and records lie on one device");
    for (const cuda::HostPiece& piece : pieces_) require_whole_words(piece, kWholeWords);
  }

  // Addresses. packed, cell: of the packed block and of the plan, in pinned or registered memory or on the device.
  // next, place: of a later step's plan and of where it comes to meanwhile; 0: none does.
  void run(std::uintptr_t packed, std::uintptr_t cell, std::uintptr_t next, std::uintptr_t place,
           std::uintptr_t stream) const;

 private:
  // Where an array of a plan lies behind the beginning of the plan's memory.
  template <class T>
  static std::int64_t offset_in(const Bytes& memory, const Vector<T>& array) {
    const auto offset = reinterpret_cast<const std::uint8_t*>(array.data()) - memory.data();
    require(0 <= offset && offset + static_cast<std::int64_t>(array.size() * sizeof(T)) <=
                               static_cast<std::int64_t>(memory.size()),
            "rows and source are parts of the plan's memory");
    return offset;
  }
  static constexpr const char* kWholeWords = "block and plan begin and end at whole words of 16 bytes";

  cuda::HostPiece pieces_[2];
  RowReads reads_;
  std::int64_t rows_offset_, source_offset_;
  bool on_cuda_;
  Prefetch prefetch_;
};

}  // namespace frugal::bindings
