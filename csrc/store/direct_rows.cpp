#include "store/direct_rows.h"

#include <stdexcept>

#include "table/row_ids.h"

namespace frugal {

void DirectRows::announce(std::int64_t step, std::span<const std::int64_t> rows, std::span<const std::int32_t>) {
  if (begun_ < 0) begun_ = step;  // a resumed run begins later than 0
  if (step != begun_ + static_cast<std::int64_t>(announced_.size()))
    throw std::logic_error("steps must be announced in order, each once");
  check_row_ids(rows.data(), static_cast<std::int64_t>(rows.size()), table_.rows());
  std::vector<std::int64_t> list;
  if (!spare_.empty()) {
    list = std::move(spare_.back());
    spare_.pop_back();
  }
  list.assign(rows.begin(), rows.end());
  announced_.push_back(std::move(list));
}

void DirectRows::begin(std::int64_t step) {
  if (step != begun_ || announced_.empty()) throw std::logic_error("a step must be announced before it begins");
  rows_ = std::move(announced_.front());
  announced_.pop_front();
  ++begun_;
  records_.resize(rows_.size());
  for (std::size_t u = 0; u < rows_.size(); ++u) records_[u] = table_.row(rows_[u]);
}

void DirectRows::end() {
  spare_.push_back(std::move(rows_));
  rows_.clear();
  records_.clear();
}

}  // namespace frugal
