// Arrays of Python as the row kernels take them, shapes checked.
#pragma once

#include <nanobind/ndarray.h>

#include <optional>
#include <string>
#include <tuple>

#include "bindings/bindings.h"
#include "bindings/named.h"
#include "bindings/row_elements.h"
#include "rows/check_plan.h"
#include "rows/cuda/plan_kernels.h"
#include "rows/row_program.h"

namespace frugal::bindings {

// On any device: the records' device decides which kernel runs, and a device also reads registered host memory.
using Rows = nb::ndarray<float, nb::ndim<2>, nb::c_contig>;
using ConstRows = nb::ndarray<const float, nb::ndim<2>>;
using Floats = nb::ndarray<float, nb::ndim<1>, nb::c_contig>;
template <class T>
using Vector = nb::ndarray<const T, nb::ndim<1>, nb::c_contig>;
using Counter = nb::ndarray<std::uint64_t, nb::ndim<1>, nb::c_contig>;

template <class Array>
bool on_cuda(const Array& array) {
  return array.device_type() == nb::device::cuda::value;
}

// A table as row kernels address it, shapes checked once, with the arrays that it lies in.
class RowTable {
 public:
  // Seed and number of a table in half precision, and which columns of whole rows it has.
  using Noise = std::tuple<std::uint64_t, std::uint32_t, ColumnRanges>;

  RowTable(std::int64_t dim, const Rows& host, const std::optional<Rows>& cache, const std::optional<Floats>& staging,
           std::int64_t state, const std::string& element, const std::optional<Noise>& rounding)
      : memory{dim, static_cast<std::int64_t>(host.shape(1)), host.data(), cache ? cache->data() : nullptr,
               staging ? staging->data() : nullptr, state, element_named(element)},
        extent{static_cast<std::int64_t>(host.shape(0)), cache ? static_cast<std::int64_t>(cache->shape(0)) : 0,
               staging ? static_cast<std::int64_t>(staging->shape(0)) : 0},
        is_host_on_cuda(on_cuda(host)),
        is_cuda(on_cuda(cache ? *cache : host)),
        host_(host),
        cache_(cache),
        staging_(staging) {
    require(dim >= 1 && state >= 0 && memory.embedding_floats() + state <= memory.stride && memory.stride % 4 == 0,
            "rows must have room for the state behind the embedding, and be a multiple of 4 floats apart");
    require(!cache || cache->shape(1) == host.shape(1), "host rows and cache must be equally far apart");
    if (rounding) {
      const auto& [seed, table, columns] = *rounding;
      rounded_by = Rounding{seed, table, whole_columns(columns, dim)};
    }
  }

  // Of steps, which compute in floats.
  template <class Records>
  void check_records(const Records& records) const {
    require(static_cast<std::int64_t>(records.shape(1)) == memory.record_stride(),
            "records must be as far apart as rows of floats are");
  }

  const RowMemory memory;
  const MemoryExtent extent;
  const bool is_host_on_cuda;
  const bool is_cuda;  // of the cache, where there is one
  std::optional<Rounding> rounded_by;

 private:
  const Rows host_;
  const std::optional<Rows> cache_;
  const std::optional<Floats> staging_;
};

template <class Records>
RowReads reads_of(const Vector<std::int64_t>& rows, const Vector<std::int32_t>& source, const Records& records) {
  require(rows.size() == source.size() && records.shape(0) >= rows.size(),
          "rows and source must be equally long, and records must have a row for each");
  return {rows.data(), source.data(), static_cast<std::int64_t>(rows.size())};
}

inline cuda::Crossing crossing_named(const std::string& name) {
  return named<cuda::Crossing>({{"bus", cuda::Crossing::kBus},
                                {"small_table", cuda::Crossing::kBusToSmallTable},
                                {"awaited", cuda::Crossing::kBusAwaited}},
                               name, "crossing");
}

inline ReadPart part_of(const std::string& name) {
  return named<ReadPart>({{"all", ReadPart::kAll}, {"host", ReadPart::kHost}, {"cache", ReadPart::kCache}}, name,
                         "part of a step's rows");
}

}  // namespace frugal::bindings
