// Arrays of Python as the row kernels take them, shapes checked.
#pragma once

#include <nanobind/ndarray.h>

#include <optional>
#include <string>

#include "bindings/bindings.h"
#include "bindings/named.h"
#include "bindings/row_elements.h"
#include "kernels/check_plan.h"
#include "kernels/cuda/plan_kernels.h"
#include "kernels/row_program.h"

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

inline RowMemory memory_of(std::int64_t dim, const Rows& host, const std::optional<Rows>& cache,
                           const std::optional<Floats>& staging, std::size_t stride, std::int64_t state = 1,
                           RowElement element = RowElement::kFloat32) {
  require(dim >= 1 && state >= 0 && static_cast<std::size_t>(embedding_floats(dim, element) + state) <= stride &&
              stride % 4 == 0,
          "rows must have room for the state behind the embedding, and be a multiple of 4 floats apart");
  require(host.shape(1) == stride && (!cache || cache->shape(1) == stride),
          "host rows, cache and records must be equally far apart");
  return {dim, static_cast<std::int64_t>(stride), host.data(), cache ? cache->data() : nullptr,
          staging ? staging->data() : nullptr, state, element};
}

// With records of the step beside it, which are in floats.
template <class Records>
RowMemory memory_beside(std::int64_t dim, const Rows& host, const std::optional<Rows>& cache,
                        const std::optional<Floats>& staging, const Records& records, std::int64_t state,
                        RowElement element) {
  const RowMemory memory = memory_of(dim, host, cache, staging, host.shape(1), state, element);
  require(static_cast<std::int64_t>(records.shape(1)) == memory.record_stride(),
          "records must be as far apart as rows of floats are");
  return memory;
}

inline MemoryExtent extent_of(const Rows& host, const std::optional<Rows>& cache,
                              const std::optional<Floats>& staging) {
  return {static_cast<std::int64_t>(host.shape(0)), cache ? static_cast<std::int64_t>(cache->shape(0)) : 0,
          staging ? static_cast<std::int64_t>(staging->shape(0)) : 0};
}

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
