// How a query is compared with the negatives of its chunk.
//
// Every model turns a positive's uncorrupted side (one entity and the relation) into one query vector, so that the
// score of replacing the other side by entity b depends on query a and b alone: one of five functions, shared by the
// models.
#pragma once

#include <cstdint>

#include "base/linalg/operands.h"
#include "models/loss.h"

namespace frugal {

enum class Similarity {
  kDot,         // a.b                                  DistMult, ComplEx, RESCAL
  kClampedDot,  // a.b, clamped to [-20, 20]            SimplE
  kL2,          // gamma - |a - b|                      TransE_l2
  kL1,          // gamma - sum |a - b|                  TransE_l1, TransR
  kModulus,     // gamma - sum of complex moduli |a - b|, real parts in the first half    RotatE
};

// One query and its row of raw values (dot products, or distances without gamma).
struct QueryRow {
  float* values;           // `vectors` vectors of raw values; replaced by scale * d loss / d raw value
  float* slope;            // as many floats of scratch
  std::int64_t negatives;  // how many of the values are real
  std::int64_t vectors;
  std::int64_t own;  // the column of the query's own positive: score 0, or for a softmax none, and no
                     // gradient; -1: there is no such column
  float query_square;            // |a|^2, kL2 only
  const float* negative_square;  // |b|^2 of each negative, padded, kL2 only
  float gamma;
  float positive_score;
  float scale;             // what d loss / d score is multiplied by
  float* terms = nullptr;  // on a device, scratch for twice as many floats
};

struct QueryLoss {
  float loss;                 // of the row's negatives (or pairs), before edge importance
  float positive_derivative;  // scale * d loss / d positive score: of a joint loss, else 0
};

// Whole vectors of a query's scores. They are multiplied by `unit` when they are read, and then bounded by
// [-bound, bound], beyond which they have no slope, if bound > 0.
struct ScoreRow {
  float* scores;
  std::int64_t vectors;
  float unit, bound;
};

// Of a softmax: the largest score so far, the sum of e^(score - largest) over a row, and by what the sum over earlier
// rows is multiplied, whose largest score was another one.
struct ExponentialSum {
  float largest, total, of_before;
};

// The functions of an instruction set that a step needs. All give the same bits on every instruction set.
struct Kernels {
  // Sixteen rows of k floats into one panel of k x 16 floats.
  void (*pack)(const float* const* rows, std::int64_t k, float* panel);
  float (*dot)(const float* a, const float* b, std::int64_t k);
  // c (rows x 16 * vectors) = a (rows x k) times b (k x 16 * vectors).
  void (*multiply)(std::int64_t rows, std::int64_t vectors, std::int64_t k, Left a, Right b, Rows c);
  // The same with sums that begin with what c holds, so that a deep product can be made in parts with the same bits.
  void (*multiply_on)(std::int64_t rows, std::int64_t vectors, std::int64_t k, Left a, Right b, Rows c);
  // values (rows x 16 * vectors): query row against every negative in the panels (each k x 16).
  void (*compare)(Similarity similarity, std::int64_t rows, std::int64_t vectors, std::int64_t k, Rows query,
                  const float* panels, Rows values);
  QueryLoss (*score)(Similarity similarity, const LossSpec& loss, const QueryRow& row);
  LossValue (*positive)(const LossSpec& loss, float score);
  // gradient (rows x k) of the rows of `mine`, from their comparison with `others` rows of `theirs`: the weight of pair
  // (i, j) is weight[i * row_stride + j * other_stride], so queries and negatives take the same function.
  // Rows are read and written in whole vectors: their stride leaves room.
  void (*gradient)(Similarity similarity, std::int64_t rows, std::int64_t others, std::int64_t k, Rows mine,
                   Rows theirs, const float* weight, std::int64_t row_stride, std::int64_t other_stride, Rows gradient);
  // Both gradients of a vector of columns in one pass over the pairs, for kL1 and kModulus, whose pairs cost more than
  // a multiply-add: of `mine`, added to my_sum (rows x parts x 16), and minus that of `theirs`, added to their_sum
  // (others x parts x 16), where parts is parts_of(similarity). mine and theirs begin at the vector's first column; k
  // is the length of a whole row, so that the second part lies k / 2 further on. Same order of sums as gradient.
  void (*gradients)(Similarity similarity, std::int64_t rows, std::int64_t others, std::int64_t k, Rows mine,
                    Rows theirs, const float* weight, std::int64_t row_stride, float* my_sum, float* their_sum);
  // before: the largest score of earlier rows. Scores of kNoScore (models/row_loss.h) do not count.
  ExponentialSum (*sum_exponentials)(const ScoreRow& row, float before);
  // Scores x become scale (e^(x - log_sum) - share).
  void (*softmax_slopes)(const ScoreRow& row, float log_sum, float scale, float share);
};

// Vectors of a row that belong to the same columns: the real and the imaginary part, or one.
inline constexpr int parts_of(Similarity similarity) { return similarity == Similarity::kModulus ? 2 : 1; }

// Those of the best instruction set that this processor has.
const Kernels& kernels();
// One by name, for tests: "baseline" or "avx512"; nullptr if this processor or build has no such set.
const Kernels* kernels(const char* instruction_set);

}  // namespace frugal
