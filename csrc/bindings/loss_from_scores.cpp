#include "step/loss_from_scores.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <tuple>
#include <vector>

#include "bindings/bindings.h"
#include "bindings/loss_spec.h"
#include "bindings/row_arrays.h"
#include "step/cuda/loss_from_scores.h"

namespace frugal::bindings::loss_from_scores {
namespace {

using Numbers = std::optional<Vector<std::int32_t>>;
// Of one table: rows, which row each of the gradients has, offsets of reads, gradients, amounts, squares.
using Table = std::tuple<ConstRows, Numbers, Numbers, Rows, Floats, Floats>;
using Sums = nb::ndarray<double, nb::ndim<1>, nb::c_contig>;

void loss_from_scores(nb::handle loss, const Vector<float>& positive, const Rows& scores,
                      const std::optional<Vector<float>>& weight, std::int64_t own, const Floats& positive_slope,
                      const Rows& losses, std::uintptr_t stream) {
  const LossSpec spec = loss_spec(loss);
  const std::size_t positives = scores.shape(0);
  require(positive.size() == positives && positive_slope.size() == positives &&
              (!weight || weight->size() == positives) && losses.shape(0) == positives && losses.shape(1) == 2,
          "scores must be (positives, columns), losses (positives, 2), and what a positive has one of (positives,)");
  require(own >= 0 && own <= static_cast<std::int64_t>(scores.shape(1)),
          "a chunk's own side must be among the columns");
  const ScoredPositives given{static_cast<std::int64_t>(positives),
                              static_cast<std::int64_t>(scores.shape(1)),
                              own,
                              positive.data(),
                              scores.data(),
                              weight ? weight->data() : nullptr,
                              positive_slope.data(),
                              losses.data()};
  const nb::gil_scoped_release release;
  if (on_cuda(scores)) return cuda::loss_from_scores(spec, given, {stream});
  cpu::loss_from_scores(spec, given);
}

PenalizedRows penalized(const Table& table) {
  const auto& [rows, slot, reads, gradients, amounts, squares] = table;
  const std::size_t count = gradients.shape(0);
  require(rows.stride(1) == 1 && rows.shape(1) == gradients.shape(1) && (slot || rows.shape(0) >= count) &&
              (!slot || slot->size() == count) && (!reads || reads->size() == count + 1) && amounts.size() == count &&
              squares.size() == count,
          "gradients must be as long as rows, and slots, reads (one more), amounts and squares as many as they");
  if (slot && !on_cuda(gradients))
    for (std::size_t i = 0; i < count; ++i)
      if (slot->data()[i] < 0 || static_cast<std::size_t>(slot->data()[i]) >= rows.shape(0))
        throw std::out_of_range("a gradient has a row that is not there");
  return {rows.data(), rows.stride(0), static_cast<std::int64_t>(rows.shape(1)), static_cast<std::int64_t>(count),
          slot ? slot->data() : nullptr, reads ? reads->data() : nullptr, gradients.data(), amounts.data(),
          squares.data()};
}

void penalize(nb::handle loss, const std::vector<Table>& tables, std::uintptr_t stream) {
  const LossSpec spec = loss_spec(loss);
  require(tables.size() <= kMostPenalized, "a step penalizes at most three tables' gradients");
  std::vector<PenalizedRows> rows;
  for (const Table& table : tables) rows.push_back(penalized(table));
  if (tables.empty()) return;
  const bool on_device = on_cuda(std::get<3>(tables[0]));
  const nb::gil_scoped_release release;
  if (on_device) return cuda::penalize(spec, rows, {stream});
  cpu::penalize(spec, rows);
}

void add_losses(nb::handle loss, const nb::ndarray<const float, nb::ndim<2>, nb::c_contig>& losses,
                const std::optional<Vector<float>>& amounts, const Sums& sums, std::uintptr_t stream) {
  const LossSpec spec = loss_spec(loss);
  require(losses.shape(1) == 2 && sums.size() == 4, "losses must be (positives, 2), and sums (4,)");
  const std::span<const float> of_positives{losses.data(), losses.size()};
  const auto of_rows = amounts ? std::span<const float>{amounts->data(), amounts->size()} : std::span<const float>{};
  const nb::gil_scoped_release release;
  if (on_cuda(sums)) return cuda::add_losses(spec, of_positives, of_rows, sums.data(), {stream});
  cpu::add_losses(spec, of_positives, of_rows, sums.data());
}

}  // namespace

void bind(nb::module_& module) {
  module.def("loss_from_scores", &loss_from_scores, "loss"_a, "positive"_a, "scores"_a.noconvert(), "weight"_a.none(),
             "own"_a,
             "positive_slope"_a.noconvert(), "losses"_a.noconvert(), "stream"_a = 0,
             "Losses of scores that others computed. positive (B,); scores (B, n) of negatives, which become "
             "d loss / d score; weight (B,) edge importance, or None; own: positives of a chunk, if the first columns "
             "are their own side, else 0; positive_slope (B,) d loss / d score; losses (B, 2) of a positive, 0 if "
             "joint, and of its negatives. Runs where `scores` lies.");
  module.def(
      "penalize", &penalize, "loss"_a, "tables"_a, "stream"_a = 0,
      "Adds d penalty / d row to gradients. tables: at most three of (rows (m, dim), slot (n,) int32 or None: "
      "the row of each gradient; reads (n + 1,) int32 or None: offsets; where they do not rise, the "
      "gradient stays as it is; gradients (n, dim); amounts (n,), which become the sum of |x|^norm of "
      "each, 0 where the gradient stays; squares (n,), the gradients' mean squares with that). Runs where the first "
      "gradients lie.");
  module.def("add_losses", &add_losses, "loss"_a, "losses"_a, "amounts"_a.none(), "sums"_a.noconvert(),
             "stream"_a = 0,
             "Adds to sums (4,): positive, negative, regularization, total of a step, from what loss_from_scores and "
             "penalize found. Runs where `sums` lies.");
}

}  // namespace frugal::bindings::loss_from_scores
