// Rows read and written in the host table itself: for a CPU without a cache, there is nothing between it and the table.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "store/step_rows.h"
#include "table/host_table.h"

namespace frugal {

class DirectRows : public StepRows {
 public:
  // The table must outlive this.
  explicit DirectRows(HostTable& table) : table_(table) {}

  const RowLayout& layout() const override { return table_.layout(); }
  void announce(std::int64_t step, std::span<const std::int64_t> rows,
                std::span<const std::int32_t> occurrences) override;
  void begin(std::int64_t step) override;
  std::span<const std::int64_t> rows() const override { return rows_; }
  std::span<float* const> source() const override { return records_; }
  std::span<float* const> destination() const override { return records_; }
  void end() override;
  void drain() override {}

 protected:
  std::int64_t running() const { return begun_ - 1; }  // the step that has begun last

 private:
  HostTable& table_;
  std::deque<std::vector<std::int64_t>> announced_;  // of the steps from begun_ on
  std::vector<std::vector<std::int64_t>> spare_;     // lists to use again
  std::int64_t begun_ = -1;                          // next step to begin; -1: none was announced yet
  std::vector<std::int64_t> rows_;
  std::vector<float*> records_;
};

}  // namespace frugal
