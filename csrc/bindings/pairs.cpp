#include <nanobind/ndarray.h>

#include <stdexcept>

#include "bindings/bindings.h"
#include "models/cpu/pair_kernels.h"
#include "models/cuda/pair_kernels.h"

namespace frugal::bindings::pairs {
namespace {

// On any device: where the result lies decides which kernel runs.
using Rows = nb::ndarray<const float, nb::ndim<3>, nb::c_contig>;
using Result = nb::ndarray<float, nb::ndim<3>, nb::c_contig>;
using Weights = nb::ndarray<const float, nb::ndim<3>>;

PairShape shape_of(PairKind kind, const Rows& mine, const Rows& theirs) {
  require(mine.shape(0) == theirs.shape(0) && mine.shape(2) == theirs.shape(2),
          "both sides must have as many chunks, and rows of one length");
  require(kind != PairKind::kModulus || mine.shape(2) % 2 == 0, "complex rows have an even length");
  const auto size = [](std::size_t n) { return static_cast<std::int64_t>(n); };
  return {size(mine.shape(0)), size(mine.shape(1)), size(theirs.shape(1)), size(mine.shape(2))};
}

template <class Array>
bool is(const Array& array, std::int64_t a, std::int64_t b, std::int64_t c) {
  return array.shape(0) == static_cast<std::size_t>(a) && array.shape(1) == static_cast<std::size_t>(b) &&
         array.shape(2) == static_cast<std::size_t>(c);
}

template <class Array>
bool on_cuda(const Array& result) { return result.device_type() == nb::device::cuda::value; }

void distances(PairKind kind, const Rows& mine, const Rows& theirs, const Result& out, std::uintptr_t stream) {
  const PairShape shape = shape_of(kind, mine, theirs);
  require(is(out, shape.chunks, shape.mine, shape.theirs), "distances must be (chunks, mine, theirs)");
  const nb::gil_scoped_release release;
  if (on_cuda(out)) return cuda::pair_distances(kind, shape, mine.data(), theirs.data(), out.data(), {stream});
  cpu::pair_distances(kind, shape, mine.data(), theirs.data(), out.data());
}

void gradients(PairKind kind, const Rows& mine, const Rows& theirs, const Weights& weight, const Result& out,
               std::uintptr_t stream) {
  const PairShape shape = shape_of(kind, mine, theirs);
  require(is(weight, shape.chunks, shape.mine, shape.theirs), "weights must be (chunks, mine, theirs)");
  require(is(out, shape.chunks, shape.mine, shape.columns), "gradients must have the shape of `mine`");
  const PairWeights weights{weight.data(), weight.stride(0), weight.stride(1), weight.stride(2)};
  const nb::gil_scoped_release release;
  if (on_cuda(out))
    return cuda::pair_gradients(kind, shape, mine.data(), theirs.data(), weights, out.data(), {stream});
  cpu::pair_gradients(kind, shape, mine.data(), theirs.data(), weights, out.data());
}

}  // namespace

void bind(nb::module_& module) {
  nb::enum_<PairKind>(module, "PairKind")
      .value("ABSOLUTE", PairKind::kAbsolute, "sum |a - b|")
      .value("MODULUS", PairKind::kModulus, "Sum of complex moduli; real parts in the first half of a row.");
  module.def("pair_distances", &distances, "kind"_a, "mine"_a, "theirs"_a, "distances"_a, "stream"_a = 0,
             "distances (c, m, t) between the rows of mine (c, m, k) and theirs (c, t, k), summed in the order of "
             "columns. Runs where `distances` lies, with the same bits everywhere.");
  module.def("pair_gradients", &gradients, "kind"_a, "mine"_a, "theirs"_a, "weight"_a, "gradients"_a, "stream"_a = 0,
             "gradients (c, m, k): sum over j, in order, of weight (c, m, t; any strides) times the derivative of the "
             "distance by the row of mine; 0 where two rows are equal. Runs where `gradients` lies, "
             "with the same bits everywhere.");
}

}  // namespace frugal::bindings::pairs
