// Compiled once per instruction set: the table of kernels for it.
#include "linalg/panel.h"
#include "loss/row_loss.h"
#include "models/similarity/dot.h"
#include "models/similarity/l1.h"
#include "models/similarity/l2.h"
#include "models/similarity/modulus.h"
#include "linalg/row.h"

namespace frugal::FRUGAL_ISA {
namespace {

void compare(Similarity similarity, std::int64_t rows, std::int64_t vectors, std::int64_t k, Rows query, const float* panels,
             Rows values) {
  switch (similarity) {
    case Similarity::kDot: return Dot::compare(rows, vectors, k, query, panels, values);
    case Similarity::kClampedDot: return ClampedDot::compare(rows, vectors, k, query, panels, values);
    case Similarity::kL2: return L2::compare(rows, vectors, k, query, panels, values);
    case Similarity::kL1: return L1::compare(rows, vectors, k, query, panels, values);
    case Similarity::kModulus: return Modulus::compare(rows, vectors, k, query, panels, values);
  }
}

template <typename S>
QueryLoss score(const LossSpec& loss, const QueryRow& row) {
  for (std::int64_t v = 0; v < row.vectors; ++v) {
    Vec slope;
    store(row.values + v * kLanes, S::score(row, v, load(row.values + v * kLanes), slope));
    store(row.slope + v * kLanes, slope);
  }
  for (std::int64_t j = row.negatives; j < row.vectors * kLanes; ++j) row.values[j] = kNoScore;
  if (row.own >= 0) row.values[row.own] = row.slope[row.own] = 0.0f;
  const RowLoss result = row_loss(loss, row.positive_score, row.scale, row.negatives, row.vectors, row.values);
  for (std::int64_t v = 0; v < row.vectors; ++v)
    store(row.values + v * kLanes, load(row.values + v * kLanes) * load(row.slope + v * kLanes));
  return {result.loss, result.positive_derivative};
}

QueryLoss score(Similarity similarity, const LossSpec& loss, const QueryRow& row) {
  switch (similarity) {
    case Similarity::kDot: return score<Dot>(loss, row);
    case Similarity::kClampedDot: return score<ClampedDot>(loss, row);
    case Similarity::kL2: return score<L2>(loss, row);
    case Similarity::kL1: return score<L1>(loss, row);
    case Similarity::kModulus: return score<Modulus>(loss, row);
  }
  __builtin_unreachable();
}

void gradient(Similarity similarity, std::int64_t rows, std::int64_t others, std::int64_t k, Rows mine, Rows theirs,
              const float* weight, std::int64_t row_stride, std::int64_t other_stride, Rows out) {
  switch (similarity) {
    case Similarity::kDot:
    case Similarity::kClampedDot:
      return Dot::gradient(rows, others, k, mine, theirs, weight, row_stride, other_stride, out);
    case Similarity::kL2: return L2::gradient(rows, others, k, mine, theirs, weight, row_stride, other_stride, out);
    case Similarity::kL1: return L1::gradient(rows, others, k, mine, theirs, weight, row_stride, other_stride, out);
    case Similarity::kModulus: return Modulus::gradient(rows, others, k, mine, theirs, weight, row_stride, other_stride, out);
  }
}

}  // namespace

extern const Kernels table;
const Kernels table = {&pack_panel, &dot, &multiply, &compare, &score, &positive_loss, &gradient};

}  // namespace frugal::FRUGAL_ISA
