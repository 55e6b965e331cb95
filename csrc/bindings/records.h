// Kernels on records, called with arrays from Python: shapes checked, the interpreter released.
#pragma once

#include <nanobind/ndarray.h>

#include <stdexcept>
#include <vector>

#include "rows/cpu/entry_update.h"
#include "rows/cpu/row_copy.h"
#include "table/row_layout.h"

namespace frugal::bindings {

namespace nb = nanobind;
using Ids = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Matrix = nb::ndarray<float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using ConstMatrix = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using HostFloats = nb::ndarray<float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using ConstHostFloats = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Records = std::vector<float*>;

inline std::int64_t length(const Ids& ids) { return static_cast<std::int64_t>(ids.shape(0)); }

template <class Array>
void check_matrix(const Array& matrix, const Records& records, const RowLayout& layout) {
  layout.require_floats();
  if (matrix.shape(0) != records.size() || matrix.shape(1) != static_cast<std::size_t>(layout.dim))
    throw std::invalid_argument("the matrix must have one row per id and one column per dimension");
}

template <class Array>
void check_vector(const Array& vector, const Records& records) {
  if (vector.shape(0) != records.size()) throw std::invalid_argument("the vector must have one element per id");
}

inline void gather(const Records& records, const RowLayout& layout, const Matrix& out) {
  check_matrix(out, records, layout);
  const nb::gil_scoped_release release;
  gather_rows(records.data(), static_cast<std::int64_t>(records.size()), layout.dim, out.data());
}

inline void apply(const Records& records, const RowLayout& layout, const ConstMatrix& gradients, float learning_rate) {
  check_matrix(gradients, records, layout);
  const nb::gil_scoped_release release;
  apply_entry(RowAdagrad{learning_rate}, records.data(), static_cast<std::int64_t>(records.size()), layout.dim,
              gradients.data());
}

inline void accumulate(const Records& records, const RowLayout& layout, const ConstMatrix& gradients,
                       const HostFloats& states) {
  check_matrix(gradients, records, layout);
  check_vector(states, records);
  const nb::gil_scoped_release release;
  accumulate_entry(records.data(), static_cast<std::int64_t>(records.size()), layout.dim, gradients.data(),
                   states.data());
}

inline void move(const Records& records, const RowLayout& layout, const ConstMatrix& gradients,
                 const ConstHostFloats& deviations, float learning_rate) {
  check_matrix(gradients, records, layout);
  check_vector(deviations, records);
  const nb::gil_scoped_release release;
  move_entry(RowAdagrad{learning_rate}, records.data(), static_cast<std::int64_t>(records.size()), layout.dim,
             gradients.data(), deviations.data());
}

}  // namespace frugal::bindings
