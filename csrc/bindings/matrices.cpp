#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <stdexcept>
#include <tuple>
#include <vector>

#include "bindings/bindings.h"
#include "models/cpu/matrix_kernels.h"
#include "models/cpu/projected_pairs.h"
#include "models/cuda/matrix_kernels.h"
#include "models/cuda/projected_pairs.h"
#include "rows/check_plan.h"

namespace frugal::bindings::matrices {
namespace {

// On any device: where the table or the result lies decides which kernel runs.
template <int kDims>
using In = nb::ndarray<const float, nb::ndim<kDims>, nb::c_contig>;
template <int kDims>
using Out = nb::ndarray<float, nb::ndim<kDims>, nb::c_contig>;
template <class T>
using Vector = nb::ndarray<const T, nb::ndim<1>, nb::c_contig>;
using Rows = nb::ndarray<std::int32_t, nb::ndim<2>, nb::c_contig>;
using Factors = std::tuple<In<3>, In<3>, std::optional<In<3>>>;  // left, right, dense

template <class Array>
std::int64_t size(const Array& array, std::size_t dimension) {
  return static_cast<std::int64_t>(array.shape(dimension));
}

// The rows of a block's steps, whose arrays stay where they are; keeps them alive.
class Matrices {
 public:
  Matrices(Out<2> table, Vector<std::int64_t> rows, std::int64_t height, std::int64_t width,
           Vector<std::int32_t> offset, Vector<std::int32_t> occurrence, Vector<std::int32_t> slot)
      : table_(std::move(table)),
        rows_(std::move(rows)),
        offset_(std::move(offset)),
        occurrence_(std::move(occurrence)),
        slot_(std::move(slot)),
        m_{table_.data(),  size(table_, 1),     rows_.data(), size(rows_, 0),  height, width,
           offset_.data(), occurrence_.data(), slot_.data(), size(slot_, 0)} {
    require(height >= 1 && width >= 1 && m_.elements() < m_.stride, "records must be a matrix and its state");
    require(size(offset_, 0) == m_.count + 1 && size(occurrence_, 0) == m_.edges,
            "offsets must have one number more than there are rows, and occurrences one for each edge");
  }

  std::int64_t tiles() const { return matrix_tiles(m_.height, m_.width); }

  void products(bool transposed, const In<3>& x, const Out<3>& y, std::uintptr_t stream) const {
    const std::int64_t in = transposed ? m_.height : m_.width, out = transposed ? m_.width : m_.height;
    require(size(x, 0) == m_.edges && size(x, 2) == in, "vectors must be (edges, vectors, length)");
    require(size(y, 0) == m_.edges && y.shape(1) == x.shape(1) && size(y, 2) == out,
            "products must be (edges, vectors, length)");
    const nb::gil_scoped_release release;
    if (on_cuda()) return cuda::matrix_products(m_, transposed, x.data(), size(x, 1), y.data(), {stream});
    check();
    cpu::matrix_products(m_, transposed, x.data(), size(x, 1), y.data());
  }

  void squares(const std::vector<Factors>& entries, float norm, float factor, const Out<3>& squares,
               const std::optional<Out<2>>& amounts, std::uintptr_t stream) const {
    const std::vector<MatrixGradients> gradients = gradients_of(entries);
    require_squares(squares, gradients);
    require(!amounts || (size(*amounts, 0) == tiles() && size(*amounts, 1) == m_.edges),
            "amounts must be (tiles, edges)");
    float* const of_tiles = amounts ? amounts->data() : nullptr;
    const auto count = static_cast<int>(gradients.size());
    const nb::gil_scoped_release release;
    if (on_cuda())
      return cuda::matrix_squares(m_, gradients.data(), count, {norm, factor}, squares.data(), of_tiles, {stream});
    check();
    cpu::matrix_squares(m_, gradients.data(), count, {norm, factor}, squares.data(), of_tiles);
  }

  void update(const std::vector<Factors>& entries, const In<3>& squares, float norm, float factor, float learning_rate,
              const Out<2>& deviations, std::uintptr_t stream) const {
    const std::vector<MatrixGradients> gradients = gradients_of(entries);
    require_squares(squares, gradients);
    require(deviations.shape(0) == gradients.size() && size(deviations, 1) == m_.count,
            "deviations must be (entries, rows)");
    const auto count = static_cast<int>(gradients.size());
    const nb::gil_scoped_release release;
    if (on_cuda())
      return cuda::update_matrices(m_, gradients.data(), count, squares.data(), {norm, factor}, learning_rate,
                                   deviations.data(), {stream});
    check();
    cpu::update_matrices(m_, gradients.data(), count, squares.data(), {norm, factor}, learning_rate,
                         deviations.data());
  }

  void project(const In<3>& candidates, const In<2>& query, const Out<3>& projected, const Out<2>& distances,
               std::uintptr_t stream) const {
    const ProjectedPairs pairs = pairs_of(size(candidates, 0), size(candidates, 1));
    require(size(candidates, 2) == m_.height, "candidates must be (chunks, negatives, height)");
    require_pairs(query, distances, pairs);
    require(size(projected, 0) == m_.edges && size(projected, 1) == pairs.negatives && size(projected, 2) == m_.width,
            "projected negatives must be (edges, negatives, width)");
    const nb::gil_scoped_release release;
    if (on_cuda())
      return cuda::project(pairs, candidates.data(), query.data(), projected.data(), distances.data(), {stream});
    check_pairs();
    cpu::project(pairs, candidates.data(), query.data(), projected.data(), distances.data());
  }

  void project_back(const In<2>& query, const In<2>& slope, const In<3>& projected, const Rows& rows,
                    const Out<4>& of_candidates, std::uintptr_t stream) const {
    const ProjectedPairs pairs = pairs_of(size(of_candidates, 0), size(of_candidates, 2));
    require_projected(query, slope, projected, pairs);
    require(size(of_candidates, 1) == pairs.kStripes && size(of_candidates, 3) == m_.height,
            "gradients by candidates must be (chunks, stripes, negatives, height)");
    require(size(rows, 0) == pairs.chunks() && size(rows, 1) == pairs.chunk_size + 1,
            "rows of runs must be (chunks, chunk size + 1)");
    const nb::gil_scoped_release release;
    if (on_cuda())
      return cuda::project_back(pairs, query.data(), slope.data(), projected.data(), rows.data(), of_candidates.data(),
                                {stream});
    check_pairs();
    cpu::project_back(pairs, query.data(), slope.data(), projected.data(), rows.data(), of_candidates.data());
  }

  void differentiate_matrices(const In<3>& candidates, const In<2>& query, const In<2>& slope, const In<3>& projected,
                              const Out<3>& of_matrices, const Out<2>& of_query, std::uintptr_t stream) const {
    const ProjectedPairs pairs = pairs_of(size(candidates, 0), size(candidates, 1));
    require_projected(query, slope, projected, pairs);
    require(size(candidates, 2) == m_.height && of_every_edge(of_matrices),
            "candidates must be (chunks, negatives, height), and gradients by matrices (edges, height, width)");
    require(of_query.shape(0) == query.shape(0) && of_query.shape(1) == query.shape(1),
            "gradients by queries must be as they are");
    const nb::gil_scoped_release release;
    if (on_cuda())
      return cuda::differentiate_matrices(pairs, candidates.data(), query.data(), slope.data(), projected.data(),
                                          of_matrices.data(), of_query.data(), {stream});
    check_pairs();
    cpu::differentiate_matrices(pairs, candidates.data(), query.data(), slope.data(), projected.data(),
                                of_matrices.data(), of_query.data());
  }

 private:
  bool on_cuda() const { return table_.device_type() == nb::device::cuda::value; }

  ProjectedPairs pairs_of(std::int64_t chunks, std::int64_t negatives) const {
    require(chunks >= 1 && m_.edges % chunks == 0, "edges must be whole chunks");
    return {m_, m_.edges / chunks, negatives};
  }
  template <class ByPair>
  void require_pairs(const In<2>& query, const ByPair& by_pair, const ProjectedPairs& pairs) const {
    require(size(query, 0) == m_.edges && size(query, 1) == m_.width && size(by_pair, 0) == m_.edges &&
                size(by_pair, 1) == pairs.negatives,
            "queries must be (edges, width), and distances and slopes (edges, negatives)");
  }
  void require_projected(const In<2>& query, const In<2>& slope, const In<3>& projected,
                         const ProjectedPairs& pairs) const {
    require_pairs(query, slope, pairs);
    require(size(projected, 0) == m_.edges && size(projected, 1) == pairs.negatives && size(projected, 2) == m_.width,
            "projected negatives must be (edges, negatives, width)");
  }

  template <class Squares>
  void require_squares(const Squares& squares, const std::vector<MatrixGradients>& entries) const {
    require(squares.shape(0) == entries.size() && size(squares, 1) == tiles() && size(squares, 2) == m_.edges,
            "squares must be (entries, tiles, edges)");
  }

  std::vector<MatrixGradients> gradients_of(const std::vector<Factors>& entries) const {
    require(entries.size() <= kMaxEntries, "a step has at most two entries");
    std::vector<MatrixGradients> gradients;
    for (const Factors& entry : entries) gradients.push_back(gradients_of(entry));
    return gradients;
  }

  template <class Array>
  bool of_every_edge(const Array& matrices) const {
    return size(matrices, 0) == m_.edges && size(matrices, 1) == m_.height && size(matrices, 2) == m_.width;
  }

  MatrixGradients gradients_of(const Factors& factors) const {
    const auto& [left, right, dense] = factors;
    require(size(left, 0) == m_.edges && size(right, 0) == m_.edges && left.shape(1) == right.shape(1) &&
                left.shape(1) <= kMaxTerms && size(left, 2) == m_.height && size(right, 2) == m_.width,
            "factors must be (edges, terms, height) and (edges, terms, width), of at most two terms");
    const auto terms = static_cast<std::int32_t>(left.shape(1));
    if (!dense) return {left.data(), right.data(), terms};
    require(of_every_edge(*dense), "dense gradients must be (edges, height, width)");
    return {left.data(), right.data(), terms, dense->data()};
  }

  // Of the CPU's arrays, that they point inside. Throws as check_plan does.
  void check() const {
    check_occurrences(m_.offset, m_.count, m_.occurrence, m_.edges, m_.edges);
    for (std::int64_t e = 0; e < m_.edges; ++e)
      if (m_.slot[e] < 0 || m_.slot[e] >= m_.count) throw std::out_of_range("an edge has a row that is not there");
    for (std::int64_t u = 0; u < m_.count; ++u)
      if (m_.rows[u] < 0 || m_.rows[u] >= size(table_, 0)) throw std::out_of_range("a row is not in the table");
  }
  // And that each row's edges ascend, as those of pairs must. Throws std::invalid_argument, too.
  void check_pairs() const {
    check();
    for (std::int64_t u = 0; u < m_.count; ++u)
      for (std::int64_t o = m_.offset[u] + 1; o < m_.offset[u + 1]; ++o)
        require(m_.occurrence[o - 1] < m_.occurrence[o], "the occurrences of a row must ascend");
  }

  const Out<2> table_;
  const Vector<std::int64_t> rows_;
  const Vector<std::int32_t> offset_, occurrence_, slot_;
  const MatrixRows m_;
};

}  // namespace

void bind(nb::module_& module) {
  nb::class_<Matrices>(
      module, "MatrixRows",
      "Rows of a table that are matrices, worked on where they lie: rows[u] (U,) int64 of table (n, stride), whose "
      "records are a matrix (height, width) and its optimizer state. Row u has the edges "
      "occurrence[offset[u] : offset[u + 1]], offset (U + 1,) int32, occurrence (B,) int32; slot (B,) int32 is the u "
      "of an edge. Rows without edges are left alone. The arrays may change between calls; calls run where the table "
      "lies. Factors are (left (B, k <= 2, height), right (B, k, width), dense (B, height, width) or None): an edge's "
      "gradient is the sum over k of left times right, plus its matrix in dense.")
      .def(nb::init<Out<2>, Vector<std::int64_t>, std::int64_t, std::int64_t, Vector<std::int32_t>,
                    Vector<std::int32_t>, Vector<std::int32_t>>(),
           "table"_a, "rows"_a, "height"_a, "width"_a, "offset"_a, "occurrence"_a, "slot"_a)
      .def_prop_ro("tiles", &Matrices::tiles, "Tiles of a matrix, over which `squares` sums.")
      .def("products", &Matrices::products, "transposed"_a, "x"_a, "y"_a, "stream"_a = 0,
           "y (B, v, height) = M x for x (B, v, width), M the matrix of an edge; transposed: y (B, v, width) = M^T x "
           "for x (B, v, height).")
      .def_prop_ro_static(
          "stripes", [](nb::handle) { return ProjectedPairs::kStripes; },
          "Stripes of runs, over which `project_back` does not sum.")
      .def("project", &Matrices::project, "candidates"_a, "query"_a, "projected"_a.noconvert(),
           "distances"_a.noconvert(), "stream"_a = 0,
           "What edges' matrices make of their chunk's negatives, c chunks: candidates (c, n, height), query (B, "
           "width), distances (B, n) = sum |query - candidate M|. projected (B, n, width) is for what follows: "
           "edges of a chunk that share a matrix share what it made, and the rest is left alone.")
      .def("project_back", &Matrices::project_back, "query"_a, "slope"_a, "projected"_a, "rows"_a.noconvert(),
           "of_candidates"_a.noconvert(), "stream"_a = 0,
           "of_candidates (c, stripes, n, height): gradients by candidates, summed over each stripe. rows (c, B / c + "
           "1) int32 becomes the number of a chunk's runs, edges that share a matrix, and behind it their rows u. "
           "slope (B, n) = d loss / d score, a score being a constant less the distance.")
      .def("differentiate_matrices", &Matrices::differentiate_matrices, "candidates"_a, "query"_a, "slope"_a,
           "projected"_a, "of_matrices"_a.noconvert(), "of_query"_a.noconvert(), "stream"_a = 0,
           "of_matrices (B, height, width): gradients by each edge's matrix through its negatives' distances; of_query "
           "(B, width) by its query.")
      .def("squares", &Matrices::squares, "entries"_a, "norm"_a, "factor"_a, "squares"_a, "amounts"_a.none(),
           "stream"_a = 0,
           "squares (entries, tiles, B): for each of at most two entries of factors, each tile and each occurrence (in "
           "the order of rows) the sum of squares of its gradient, to which factor * |x|^(norm - 1) sign(x) is added. "
           "amounts (tiles, B) or None: numbers that add up to the sum of |x|^norm over all edges' matrices.")
      .def("update", &Matrices::update, "entries"_a, "squares"_a, "norm"_a, "factor"_a, "learning_rate"_a,
           "deviations"_a, "stream"_a = 0,
           "Row-wise Adagrad for those entries, one after the other, with what `squares` has found. deviations "
           "(entries, U): for what divides.");
}

}  // namespace frugal::bindings::matrices
