#include "store/stochastic_rounded_rows.h"

#include <stdexcept>

#include "base/parallel/thread_pool.h"

namespace frugal {
namespace {

constexpr std::int64_t kRoundedRowsPerTask = 16;  // below this a second thread costs more than it saves

}  // namespace

StochasticRoundedRows::StochasticRoundedRows(StepRows& beneath, const Rounding& rounding)
    : beneath_(beneath),
      rounding_(rounding),
      layout_(beneath.layout().in_floats()) {
  if (!beneath.layout().is_half()) throw std::invalid_argument("these rows are not in half precision");
}

void StochasticRoundedRows::begin(std::int64_t step) {
  beneath_.begin(step);
  step_ = step;
  const auto source = beneath_.source();
  const auto count = static_cast<std::int64_t>(source.size());
  memory_.resize(static_cast<std::size_t>(count * layout_.stride));
  records_.resize(source.size());
  for (std::int64_t u = 0; u < count; ++u) records_[u] = memory_.data() + u * layout_.stride;
  const auto destination = beneath_.destination();
  updated_ = records_;
  for (std::int64_t u = 0; u < count; ++u)
    if (destination[u] == nullptr) updated_[u] = nullptr;
  default_pool()->parallel_for(count, kRoundedRowsPerTask, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t u = first; u < last; ++u) expand_record(beneath_.layout(), source[u], records_[u]);
  });
}

void StochasticRoundedRows::end() {
  const auto rows = beneath_.rows();
  const auto destination = beneath_.destination();
  default_pool()->parallel_for(static_cast<std::int64_t>(rows.size()), kRoundedRowsPerTask,
                              [&](std::int64_t first, std::int64_t last) {
                                for (std::int64_t u = first; u < last; ++u)
                                  if (destination[u] != nullptr)
                                    round_record(beneath_.layout(), records_[u], destination[u],
                                                 rounding_.of(step_, rows[u]), rounding_.columns);
                              });
  beneath_.end();
}

}  // namespace frugal
