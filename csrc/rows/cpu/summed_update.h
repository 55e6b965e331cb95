// Updates from sums of gradients on the CPU. See rows/summed_row.h and table/summed_update.h.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "rows/summed_row.h"
#include "table/row_update.h"

namespace frugal::cpu {

// Where each row of a step on the CPU is read and written: (count,) records. A row whose destination is nullptr is not
// updated; the sum of its gradients goes to `gradient` (which may be null if there is none).
struct RowPointers {
  float* const* source;
  float* const* destination;
  float* const* gradient;
  std::int64_t count;
  std::int64_t dim;
};

// Row u is updated from the sum of its occurrences. Results do not depend on the number of threads.
void update_from_gradients(const RowPointers& rows, const EntryGradients& gradients, const UpdateRule& rule);

// The reference for cuda/summed_update.h.
void update_from_sums(const RowMemory& memory, const RowWrites& writes, const float* records, const float* sums,
                      const UpdateRule& rule);

}  // namespace frugal::cpu

namespace frugal {

// The rule of a table's updates: one per step, whose rate may change from one to the next.
class SummedUpdate final : public RowUpdate {
 public:
  explicit SummedUpdate(Optimizer optimizer) { rule_.optimizer = optimizer; }

  // The rule of the update that comes next. The betas are Adam's, which counts the updates.
  void next(double learning_rate, float epsilon, float largest_norm, double beta1, double beta2);
  // Whether rows leave as they are from now on, until this is taken back.
  void set_skips(bool skips) { rule_.skips = skips; }
  const UpdateRule& rule() const { return rule_; }
  std::int64_t updates() const { return updates_; }  // so far
  void set_updates(std::int64_t updates) { updates_ = updates; }

  // Where several ranks train, each step of the engine has one update, from step 0 on: keep the rules of the last
  // `steps`, which flush threads ask for.
  void keep(std::int64_t steps) { kept_.resize(static_cast<std::size_t>(steps)); }

  // gradients: one sum per rank. By the rule of the latest update, or by that of a step that is kept.
  void apply(float* row, std::span<const float* const> gradients, const RowLayout& layout) const override;
  void apply_in_step(std::int64_t step, float* row, std::span<const float* const> gradients,
                     const RowLayout& layout) const override;

 private:
  struct Kept {
    std::int64_t step = -1;
    UpdateRule rule;
  };

  UpdateRule rule_;
  std::int64_t updates_ = 0, steps_ = 0;
  std::vector<Kept> kept_;  // of step s at s % size: written before the step is published, read after that
};

}  // namespace frugal
