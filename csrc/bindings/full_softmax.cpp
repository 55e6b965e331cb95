#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <tuple>

#include "bindings/bindings.h"
#include "bindings/named.h"
#include "bindings/row_arrays.h"
#include "bindings/row_elements.h"
#include "full_softmax/cpu/penalty.h"
#include "full_softmax/cpu/products.h"
#include "full_softmax/cpu/round_matrix.h"
#include "full_softmax/cpu/tile_kernels.h"
#include "full_softmax/cuda/penalty.h"
#include "full_softmax/cuda/round_matrix.h"
#include "full_softmax/cuda/tile_kernels.h"

namespace frugal::bindings::full_softmax {
namespace {

// On any device: where scores, gradients or values lie decides which kernel runs.
using Matrix = nb::ndarray<float, nb::ndim<2>>;
using Floats = nb::ndarray<float, nb::ndim<1>, nb::c_contig>;
using Ids = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig>;
using Slots = nb::ndarray<const std::int32_t, nb::ndim<1>, nb::c_contig>;
// ids, begin, end, on, off; see SoftmaxTargets.
using Targets = std::tuple<Ids, Ids, Ids, std::optional<Floats>, std::optional<Floats>>;
// Of fp16, (n, columns) without gaps.
using HalfMatrix = nb::ndarray<nb::ndim<2>, nb::c_contig>;
using Unit = std::optional<Floats>;
// optimizer, learning rate, epsilon, corrections; see UpdateRule.
using Rule = std::tuple<std::string, float, float, std::optional<Floats>>;

constexpr std::size_t kWhole = 16;  // floats that products on the CPU read and write at a time

std::int64_t size(std::size_t n) { return static_cast<std::int64_t>(n); }

// Whether rows may be read and written up to whole vectors, which the last row needs room for, too.
bool has_room(const Matrix& matrix) {
  return matrix.stride(1) == 1 && (matrix.shape(1) % kWhole == 0 || matrix.stride(0) % size(kWhole) == 0);
}

const float* unit_of(const Unit& unit) {
  require(!unit || unit->size() == 1, "a unit is one number");
  return unit ? unit->data() : nullptr;
}

ScoreTile tile_of(const Matrix& scores, std::int64_t first, float bound, const Unit& unit) {
  require(scores.shape(0) > 0 && scores.shape(1) > 0 && scores.stride(1) == 1 && scores.stride(0) % size(kWhole) == 0,
          "scores need rows of whole vectors, and at least one of each");
  return {scores.data(), size(scores.shape(0)), size(scores.shape(1)), scores.stride(0), first, bound,
          unit_of(unit)};
}

SoftmaxTargets targets_of(const Targets& targets, const ScoreTile& tile) {
  const auto& [ids, begin, end, on, off] = targets;
  const auto rows = static_cast<std::size_t>(tile.rows);
  require(begin.size() == rows && end.size() == rows && (!on || on->size() == rows) && (!off || off->size() == rows),
          "each query needs a range of targets");
  return {ids.data(), begin.data(), end.data(), on ? on->data() : nullptr, off ? off->data() : nullptr};
}

UpdateRule rule_of(const Rule& given) {
  const auto& [name, learning_rate, epsilon, corrections] = given;
  const auto optimizer = named<Optimizer>({{"sgd", Optimizer::kSgd},
                                           {"row_adagrad", Optimizer::kRowwiseAdagrad},
                                           {"adagrad", Optimizer::kAdagrad},
                                           {"adam", Optimizer::kAdam}},
                                          name, "optimizer");
  require((optimizer == Optimizer::kAdam) == corrections.has_value(), "Adam, and it alone, has corrections");
  return {optimizer, learning_rate, epsilon, corrections ? corrections->data() : nullptr};
}

TableRows table_of(const Matrix& table, std::int64_t dim, const UpdateRule& rule) {
  require(table.stride(1) == 1 && dim >= 1 && dim + rule.state_floats(dim) <= table.stride(0),
          "rows must have room for the optimizer's state behind the embedding");
  return {table.data(), table.stride(0), dim};
}

void add_tile(const Matrix& scores, std::int64_t first, float bound, const Targets& targets, const Floats& largest,
              const Floats& total, const Floats& wanted, std::uintptr_t stream, const Unit& unit, std::int64_t part) {
  const ScoreTile tile = tile_of(scores, first, bound, unit);
  const SoftmaxTargets of_queries = targets_of(targets, tile);
  require(part >= tile.columns || (part > 0 && part % size(kWhole) == 0 && !on_cuda(scores)),
          "a part has whole vectors of columns, or all; on a device all");
  require(largest.size() == scores.shape(0) && total.size() == scores.shape(0) && wanted.size() == scores.shape(0),
          "each query needs its sums");
  const SoftmaxSums sums{largest.data(), total.data(), wanted.data()};
  const nb::gil_scoped_release release;
  if (on_cuda(scores)) return cuda::add_tile(tile, of_queries, sums, stream);
  cpu::add_tile(tile, of_queries, sums, part);
}

void tile_slopes(const Matrix& scores, std::int64_t first, float bound, const Targets& targets, const Floats& log_sum,
                 const std::optional<Floats>& scale, std::uintptr_t stream, const Unit& unit,
                 const std::string& element, float factor) {
  const ScoreTile tile = tile_of(scores, first, bound, unit);
  const SoftmaxTargets of_queries = targets_of(targets, tile);
  require(log_sum.size() == scores.shape(0) && (!scale || scale->size() == scores.shape(0)),
          "each query needs its sums");
  const SlopeForm form{bindings::element_named(element), factor};
  const float* const scales = scale ? scale->data() : nullptr;
  const nb::gil_scoped_release release;
  if (on_cuda(scores)) return cuda::tile_slopes(tile, of_queries, log_sum.data(), scales, form, stream);
  cpu::tile_slopes(tile, of_queries, log_sum.data(), scales, form);
}

void update_tile(const Matrix& table, std::int64_t dim, std::int64_t first, const Matrix& gradients, const Slots& slot,
                 const Matrix& aside, const Rule& rule, std::uintptr_t stream, const Unit& unit) {
  UpdateRule update = rule_of(rule);
  update.unit = unit_of(unit);
  const TableRows rows = table_of(table, dim, update);
  const std::int64_t count = size(gradients.shape(0));
  require(first >= 0 && first + count <= size(table.shape(0)) && first + count <= size(slot.size()) &&
              size(gradients.shape(1)) == dim && gradients.stride(1) == 1 && size(aside.shape(1)) == dim &&
              aside.stride(0) == dim && aside.stride(1) == 1,
          "a tile needs rows of the table, slots and gradients, and room for the rows that have slots");
  const nb::gil_scoped_release release;
  if (on_cuda(gradients))
    return cuda::update_tile(rows, first, count, gradients.data(), gradients.stride(0), slot.data(), aside.data(),
                             update, stream);
  cpu::update_tile(rows, first, count, gradients.data(), gradients.stride(0), slot.data(), aside.data(), update);
}

void update_rows(const Matrix& table, std::int64_t dim, const Ids& ids, const Slots& used, const Matrix& gradients,
                 const Rule& rule, std::uintptr_t stream) {
  const UpdateRule update = rule_of(rule);
  const TableRows rows = table_of(table, dim, update);
  require(used.size() == 1 && ids.size() <= gradients.shape(0) && size(gradients.shape(1)) == dim &&
              gradients.stride(0) == dim && gradients.stride(1) == 1,
          "each row needs a gradient");
  const nb::gil_scoped_release release;
  if (on_cuda(gradients))
    return cuda::update_rows(rows, ids.data(), used.data(), size(ids.size()), gradients.data(), update, stream);
  cpu::update_rows(rows, ids.data(), used.data(), gradients.data(), update);
}

void round_matrix(const Matrix& from, const HalfMatrix& to, const Floats& scaling, std::uintptr_t stream) {
  constexpr std::size_t kWord = 8;  // numbers of 16 bits, as 4 floats, are 16 bytes
  require(to.dtype().bits == 16 && to.shape(1) % kWord == 0 && to.shape(0) >= from.shape(0) &&
              to.shape(1) >= from.shape(1) && from.stride(1) == 1 && from.stride(0) % 4 == 0 && scaling.size() == 3,
          "a matrix of 16-bit numbers has rows of whole words, and room for all numbers");
  const MatrixRounding rounding{from.data(), size(from.shape(0)), size(from.shape(1)), from.stride(0),
                                static_cast<std::uint16_t*>(to.data()), size(to.shape(0)), size(to.shape(1)),
                                scaling.data()};
  const nb::gil_scoped_release release;
  if (on_cuda(from)) return cuda::round_matrix(rounding, stream);
  cpu::round_matrix(rounding);
}

void penalize_rows(const nb::ndarray<const float, nb::ndim<2>, nb::c_contig>& rows, const Slots& times, float norm,
                   bool is_complex, float share, const nb::ndarray<float, nb::ndim<2>, nb::c_contig>& slopes,
                   const nb::ndarray<double, nb::ndim<1>, nb::c_contig>& amounts, std::uintptr_t stream) {
  require(times.size() == rows.shape(0) && amounts.size() == rows.shape(0) && slopes.shape(0) == rows.shape(0) &&
              slopes.shape(1) == rows.shape(1),
          "each row needs a number of times, slopes and an amount");
  require(norm > 0.0f && (!is_complex || (norm == 3.0f && rows.shape(1) % 2 == 0)),
          "a norm is positive, and 3 of complex numbers, which are pairs");
  const RowPenalty penalty{rows.data(), times.data(), size(rows.shape(0)), size(rows.shape(1)), norm,
                           is_complex,  share,        slopes.data(),       amounts.data()};
  const nb::gil_scoped_release release;
  if (on_cuda(slopes)) return cuda::penalize_rows(penalty, stream);
  cpu::penalize_rows(penalty);
}

void drop(const Matrix& values, float rate, std::uint64_t seed, const Ids& step, std::uint32_t part, std::int64_t first,
          std::uintptr_t stream) {
  require(rate >= 0.0f && rate < 1.0f && seed < std::uint64_t{1} << 32 && step.size() == 1 && values.stride(1) == 1,
          "dropout has a rate in [0, 1), a seed below 2^32 and a step, for rows of contiguous floats");
  const Dropout dropout{rate, seed, step.data(), part, first};
  const std::int64_t rows = size(values.shape(0)), dim = size(values.shape(1));
  const nb::gil_scoped_release release;
  if (on_cuda(values)) return cuda::drop(dropout, rows, dim, values.stride(0), values.data(), stream);
  cpu::drop(dropout, rows, dim, values.stride(0), values.data());
}

void multiply(const Matrix& a, const Matrix& b, const Matrix& out, bool transposed, bool adds) {
  const std::size_t depth = b.shape(transposed ? 1 : 0), columns = b.shape(transposed ? 0 : 1);
  require(!on_cuda(out) && a.shape(0) == out.shape(0) && columns == out.shape(1) && a.shape(1) == depth &&
              has_room(out) && b.stride(1) == 1 && (transposed ? a.stride(1) == 1 : has_room(b)),
          "the matrices do not fit each other, or lack room for whole vectors");
  require(!transposed || !adds, "only a product of a matrix as it lies is added");
  const auto m = size(a.shape(0)), n = size(columns), k = size(depth);
  const nb::gil_scoped_release release;
  if (transposed)
    return cpu::multiply_transposed(m, n, k, {a.data(), a.stride(0)}, {b.data(), b.stride(0)},
                                    {out.data(), out.stride(0)});
  cpu::multiply(m, n, k, {a.data(), a.stride(0), a.stride(1)}, {b.data(), b.stride(0)}, {out.data(), out.stride(0)},
                adds);
}

}  // namespace

void bind(nb::module_& module) {
  module.attr("LEAST_SCORE") = kLeastScore;
  module.def("softmax_add_tile", &add_tile, "scores"_a, "first"_a, "bound"_a, "targets"_a, "largest"_a, "total"_a,
             "wanted"_a, "stream"_a = 0, "unit"_a = nb::none(), "part"_a = std::numeric_limits<std::int64_t>::max(),
             "Adds the scores (B, n) of entities first .. first + n to the sums (B,) of a softmax: see "
             "csrc/full_softmax/tiles.h. targets: (ids, begin (B,), end (B,)) int64, and on, off (B,) float32 or None. "
             "Runs where the scores lie; their rows are whole vectors of 16 floats. unit: (1,) or None, what "
             "scores are multiplied by first. part: columns that are summed up at a time, on the CPU; the order of "
             "sums follows from it.");
  module.def("softmax_slopes", &tile_slopes, "scores"_a, "first"_a, "bound"_a, "targets"_a, "log_sum"_a, "scale"_a,
             "stream"_a = 0, "unit"_a = nb::none(), "element"_a = "fp32", "factor"_a = 1.0f,
             "Replaces the scores of a tile by d loss / d score; log_sum, scale (B,). Without scale (None) all slopes "
             "are multiplied by factor. element: fp16 leaves numbers of 16 bits at the beginning of each row's "
             "memory, with zeros up to a multiple of 8.");
  module.def("softmax_update_tile", &update_tile, "table"_a, "dim"_a, "first"_a, "gradients"_a, "slot"_a, "aside"_a,
             "rule"_a, "stream"_a = 0, "unit"_a = nb::none(),
             "Updates rows first .. first + n of a table (rows, stride) from gradients (n, dim), but copies the "
             "gradient of row j with slot[j] >= 0 to aside[slot[j]] instead. slot: int32, one for each row. rule: "
             "(row_adagrad, adagrad, adam or sgd; learning rate; epsilon; Adam's corrections (2,) float32 or None). "
             "unit: (1,) or None, what gradients are multiplied by first.");
  module.def("round_matrix", &round_matrix, "from"_a, "to"_a, "scaling"_a, "stream"_a = 0,
             "to (.., columns) in fp16 = from (n, dim) times a power of two, zero where from has nothing. "
             "scaling: (3,) float32, of which the last is 0 before; afterwards the power, its inverse and the largest "
             "magnitude. See csrc/full_softmax/rounding.h.");
  module.def("softmax_update_rows", &update_rows, "table"_a, "dim"_a, "ids"_a, "used"_a, "gradients"_a, "rule"_a,
             "stream"_a = 0, "Updates rows ids[:used] (int64; used (1,) int32) of a table from gradients (.., dim).");
  module.def(
      "penalize_rows", &penalize_rows, "rows"_a, "times"_a, "norm"_a, "is_complex"_a, "share"_a, "slopes"_a,
      "amounts"_a, "stream"_a = 0,
      "The gradient (n, dim) of the penalty share / norm sum times |x|^norm of rows (n, dim), which occur times "
      "(n,) int32, and each row's times sum |x|^norm (n,) float64. is_complex: of moduli of complex numbers, whose "
      "real parts come first; then norm is 3.");
  module.def("drop", &drop, "values"_a, "rate"_a, "seed"_a, "step"_a, "part"_a, "first"_a = 0, "stream"_a = 0,
             "Dropout of values (n, dim) in place, a function of (seed, step (1,) int64, part, row, column); first: "
             "number of the first row. The same elements everywhere.");
  module.def("multiply", &multiply, "a"_a, "b"_a, "out"_a, "transposed"_a, "adds"_a = false,
             "out = a b, or a b^T if transposed, on the CPU: each element one sum in the order of its depth, whatever "
             "the number of threads, and if it adds (a b alone), one that begins with what out holds. Rows of out, and "
             "of b if not transposed, are whole vectors of 16 floats.");
}

}  // namespace frugal::bindings::full_softmax
