// How the occurrences of one row in one entry change it: the only arithmetic the engine knows.
//
// An entry is an ordered list of occurrences of rows, each with its gradient (DGL-KE: positives first, then negatives).
// The host applies an entry of a row with apply(); a device that updates a cached row must do the same operations in
// the same order, so that a row has the same bits wherever it was updated.
#pragma once

#include <cstdint>
#include <span>

#include "table/row_layout.h"

namespace frugal {

class RowUpdate {
 public:
  virtual ~RowUpdate() = default;

  // row: layout.dim floats of embedding with the state behind them. gradients: the row's occurrences in the entry, in
  // canonical order, dim floats each, none overlapping the row. Thread-safe; does not allocate or fail.
  virtual void apply(float* row, std::span<const float* const> gradients, const RowLayout& layout) const = 0;
  // The same in a step of the engine, for an update that is not the same in all steps.
  virtual void apply_in_step(std::int64_t step, float* row, std::span<const float* const> gradients,
                             const RowLayout& layout) const {
    (void)step;
    apply(row, gradients, layout);
  }
};

// Row-wise Adagrad in DGL-KE's order (row_adagrad.h): all occurrences add to the state before any moves the row.
class RowAdagradUpdate final : public RowUpdate {
 public:
  explicit RowAdagradUpdate(float learning_rate) : learning_rate_(learning_rate) {}
  void apply(float* row, std::span<const float* const> gradients, const RowLayout& layout) const override;

 private:
  float learning_rate_;
};

}  // namespace frugal
