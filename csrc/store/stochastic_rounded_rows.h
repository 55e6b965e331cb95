// Rows that lie in half precision, as a step on the CPU computes with them: in floats.
//
// A step's rows are expanded into records of floats when it begins, and rounded at random when it ends, once, into
// where the rows beneath leave them. Those may be cached and flushed as any others: records only move there.
#pragma once

#include <cstdint>
#include <vector>

#include "store/step_rows.h"
#include "table/half_rows.h"

namespace frugal {

class StochasticRoundedRows final : public StepRows {
 public:
  // beneath: of a table in half precision; must outlive this. Throws std::invalid_argument for a table of floats.
  StochasticRoundedRows(StepRows& beneath, const Rounding& rounding);

  const RowLayout& layout() const override { return layout_; }
  void announce(std::int64_t step, std::span<const std::int64_t> rows,
                std::span<const std::int32_t> occurrences) override {
    beneath_.announce(step, rows, occurrences);
  }
  void begin(std::int64_t step) override;
  std::span<const std::int64_t> rows() const override { return beneath_.rows(); }
  std::span<float* const> source() const override { return records_; }
  std::span<float* const> destination() const override { return updated_; }
  std::span<float* const> gradient() const override { return beneath_.gradient(); }
  void end() override;
  void drain() override { beneath_.drain(); }

 private:
  StepRows& beneath_;
  const Rounding rounding_;
  const RowLayout layout_;  // in floats
  std::int64_t step_ = -1;
  std::vector<float> memory_;
  std::vector<float*> records_, updated_;  // updated_: nullptr for rows that leave as gradients
};

}  // namespace frugal
