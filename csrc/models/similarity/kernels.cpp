// Compiled once per instruction set: the table of kernels for it.
#include "base/linalg/panel.h"
#include "base/linalg/row.h"
#include "models/similarity/dot.h"
#include "models/similarity/l1.h"
#include "models/similarity/l2.h"
#include "models/similarity/modulus.h"
#include "models/similarity/score_row.h"
#include "models/similarity/softmax_row.h"

namespace frugal::FRUGAL_ISA {
namespace {

void compare(Similarity similarity, std::int64_t rows, std::int64_t vectors, std::int64_t k, Rows query,
             const float* panels, Rows values) {
  switch (similarity) {
    case Similarity::kDot:
      return Dot::compare(rows, vectors, k, query, panels, values);
    case Similarity::kClampedDot:
      return Dot::compare(rows, vectors, k, query, panels, values);
    case Similarity::kL2:
      return L2::compare(rows, vectors, k, query, panels, values);
    case Similarity::kL1:
      return L1::compare(rows, vectors, k, query, panels, values);
    case Similarity::kModulus:
      return Modulus::compare(rows, vectors, k, query, panels, values);
  }
}

QueryLoss score(Similarity similarity, const LossSpec& loss, const QueryRow& row) {
  switch (similarity) {
    case Similarity::kDot:
      return score_row<Dot>(loss, row);
    case Similarity::kClampedDot:
      return score_row<ClampedDot>(loss, row);
    case Similarity::kL2:
      return score_row<L2>(loss, row);
    case Similarity::kL1:
      return score_row<L1>(loss, row);
    case Similarity::kModulus:
      return score_row<Modulus>(loss, row);
  }
  __builtin_unreachable();
}

void gradient(Similarity similarity, std::int64_t rows, std::int64_t others, std::int64_t k, Rows mine, Rows theirs,
              const float* weight, std::int64_t row_stride, std::int64_t other_stride, Rows out) {
  switch (similarity) {
    case Similarity::kDot:
    case Similarity::kClampedDot:
      return Dot::gradient(rows, others, k, mine, theirs, weight, row_stride, other_stride, out);
    case Similarity::kL2:
      return L2::gradient(rows, others, k, mine, theirs, weight, row_stride, other_stride, out);
    case Similarity::kL1:
      return one_side<L1>(rows, others, k, mine, theirs, {weight, row_stride, other_stride}, out);
    case Similarity::kModulus:
      return one_side<Modulus>(rows, others, k, mine, theirs, {weight, row_stride, other_stride}, out);
  }
}

void gradients(Similarity similarity, std::int64_t rows, std::int64_t others, std::int64_t k, Rows mine, Rows theirs,
               const float* weight, std::int64_t row_stride, float* my_sum, float* their_sum) {
  if (similarity == Similarity::kL1)
    both_sides<L1>(rows, others, k, mine, theirs, {weight, row_stride, 1}, my_sum, their_sum);
  else
    both_sides<Modulus>(rows, others, k, mine, theirs, {weight, row_stride, 1}, my_sum, their_sum);
}

}  // namespace

extern const Kernels table;
const Kernels table = {&pack_panel,    &dot,      &multiply,  &multiply_on,      &compare,       &score,
                       &positive_loss, &gradient, &gradients, &sum_exponentials, &softmax_slopes};

}  // namespace frugal::FRUGAL_ISA
