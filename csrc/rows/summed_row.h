// How a row leaves a step that updates it once, from the sum of its gradients (table/summed_update.h): one warp's work,
// written once for both machines as rows/row_program.h is, and with the same bits on both.
#pragma once

#include "rows/row_program.h"
#include "table/summed_update.h"

#ifdef __CUDACC__
#define FRUGAL_INDEPENDENT
#else
#define FRUGAL_INDEPENDENT _Pragma("GCC ivdep")  // `to` may be `record`, but never one element further
#endif

namespace frugal {

// write(i, read(i)) for elements lane, lane + kLanes, .. of dim, which are independent of each other. A lane of several
// reads some before it writes the first, since otherwise each would wait for memory by itself.
template <int kLanes, class Read, class Write>
FRUGAL_WARP_CODE void for_elements(std::int64_t dim, int lane, Read read, Write write) {
  if constexpr (kLanes == 1) {
    FRUGAL_INDEPENDENT
    for (std::int64_t i = 0; i < dim; ++i) write(i, read(i));
  } else {
    constexpr int kAhead = 8;
    for (std::int64_t first = lane; first < dim; first += kAhead * kLanes) {
      decltype(read(first)) element[kAhead];
      FRUGAL_UNROLL
      for (int k = 0; k < kAhead; ++k)
        if (first + k * kLanes < dim) element[k] = read(first + k * kLanes);
      FRUGAL_UNROLL
      for (int k = 0; k < kAhead; ++k)
        if (first + k * kLanes < dim) write(first + k * kLanes, element[k]);
    }
  }
}

// An element of a row with what its update reads.
struct SummedElement {
  float value, gradient, state[2];
};

// Of a row of dim columns (and state) those from `record` on, `columns` of them, leave to `to`, which may be the record
// itself; all of the row unless the rule is by_element. The warp's lane `lane` of kLanes does every kLanes-th
// element; on the CPU there is one that does all. sum: as many floats. power: sum_level_power of the row.
template <class Warp, int kLanes>
FRUGAL_WARP_CODE void update_columns(float* to, const float* record, const float* sum, std::int64_t columns,
                                     std::int64_t dim, const UpdateRule& rule, int power, int lane) {
  if (rule.skips)
    return for_elements<kLanes>(
        columns == dim ? dim + rule.state_floats(dim) : columns, lane, [&](std::int64_t i) { return record[i]; },
        [&](std::int64_t i, float x) { to[i] = x; });
  const float negative_rate = -rule.learning_rate;
  float unit = rule.unit ? *rule.unit : 1.0f, mean[1] = {};
  // Every lane reads what elements share before the lanes wait for each other below: one of them overwrites it.
  const float* const shared = record + rule.state_floats(dim) + dim - 1;
  const float before = rule.by_row() ? *shared : 0.0f;
  if (!rule.by_element()) {
    const float* const gradient[1] = {sum};
    warp_mean_squares<Warp, 1>(gradient, dim, power, mean);
    const float norm = unit * Warp::square_root(mean[0] * static_cast<float>(dim));
    if (rule.largest_norm > 0.0f && norm > rule.largest_norm) unit *= rule.largest_norm / norm;
  }
  const float square = unit * (unit * mean[0]);
  const float* const corrections = rule.corrections;
  const float corrected_rate = corrections ? corrections[0] : rule.corrected_rate;
  const float root_rate = corrections ? corrections[1] : rule.root_rate;
  switch (rule.optimizer) {
    case Optimizer::kSgd:
      for_elements<kLanes>(
          columns, lane, [&](std::int64_t i) { return SummedElement{record[i], unit * sum[i], {}}; },
          [&](std::int64_t i, const SummedElement& x) { to[i] = x.value + negative_rate * x.gradient; });
      return;
    case Optimizer::kRowwiseAdagrad: {
      const float state = before + square;
      const float deviation = Warp::square_root(state) + rule.epsilon;
      for_elements<kLanes>(
          columns, lane, [&](std::int64_t i) { return SummedElement{record[i], unit * sum[i], {}}; },
          [&](std::int64_t i, const SummedElement& x) { to[i] = x.value + negative_rate * x.gradient / deviation; });
      Warp::store_one(to + dim, state);
      return;
    }
    case Optimizer::kAdagrad:
      for_elements<kLanes>(
          columns, lane, [&](std::int64_t i) { return SummedElement{record[i], unit * sum[i], {record[dim + i]}}; },
          [&](std::int64_t i, const SummedElement& x) {
            const float state = x.state[0] + x.gradient * x.gradient;
            to[dim + i] = state;
            to[i] = x.value + negative_rate * x.gradient / (Warp::square_root(state) + rule.epsilon);
          });
      return;
    case Optimizer::kAdam:
      for_elements<kLanes>(
          columns, lane,
          [&](std::int64_t i) {
            return SummedElement{record[i], unit * sum[i], {record[dim + i], record[2 * dim + i]}};
          },
          [&](std::int64_t i, const SummedElement& x) {
            const float average = x.state[0] + rule.mean_rate * (x.gradient - x.state[0]);
            const float squares = x.state[1] + rule.square_rate * (x.gradient * x.gradient - x.state[1]);
            to[dim + i] = average;
            to[2 * dim + i] = squares;
            to[i] = x.value - corrected_rate * average / (Warp::square_root(squares) * root_rate + rule.epsilon);
          });
      return;
    case Optimizer::kRowwiseAdam: {
      const float state = before + rule.square_rate * (square - before);
      const float deviation = Warp::square_root(state) * root_rate + rule.epsilon;
      for_elements<kLanes>(
          columns, lane, [&](std::int64_t i) { return SummedElement{record[i], unit * sum[i], {record[dim + i]}}; },
          [&](std::int64_t i, const SummedElement& x) {
            const float average = x.state[0] + rule.mean_rate * (x.gradient - x.state[0]);
            to[dim + i] = average;
            to[i] = x.value - corrected_rate * average / deviation;
          });
      Warp::store_one(to + 2 * dim, state);
      return;
    }
  }
}

// Row `record` (embedding and state) leaves as a whole.
template <class Warp, int kLanes>
FRUGAL_WARP_CODE void update_from_sum(float* to, const float* record, const float* sum, std::int64_t dim,
                                      const UpdateRule& rule, int power, int lane) {
  update_columns<Warp, kLanes>(to, record, sum, dim, dim, rule, power, lane);
}

// Row u leaves as its plan says: updated, or as the sum of its gradients where other ranks use it too.
template <class Warp, int kLanes>
FRUGAL_WARP_CODE void leave_with_sum(const RowMemory& memory, RowDestination leave, std::int64_t target,
                                     const float* record, const float* sum, const UpdateRule& rule, int power,
                                     int lane) {
  float* const to = target_of(memory, leave, target);
  if (leave == RowDestination::kGradient)
    copy_row<Warp>(to, sum, memory.dim);
  else
    update_from_sum<Warp, kLanes>(to, record, sum, memory.dim, rule, power, lane);
}

}  // namespace frugal
