// Rows of steps that a rank in the planner's process has registered where they lie, in memory that somebody keeps.
//
// To copy them costs the rank a line of another core's memory for each eight rows, and its device may be waiting for
// it. So the planner copies them, by several threads, before it decides its next step. Nothing here is locked: a cell
// changes hands with the number of registered steps, and comes back with that of planned ones.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace frugal {

class GivenRows {
 public:
  // steps: that may be registered at a time.
  explicit GivenRows(std::int64_t steps) : cells_(static_cast<std::size_t>(steps)) {}

  // By the rank, before it says that the step is registered. owner: whose the rows are.
  void give(std::int64_t step, const std::int64_t* rows, std::shared_ptr<const void> owner) {
    cell(step) = {rows, std::move(owner)};
  }
  // By the planner: nullptr where they have been copied already.
  const std::int64_t* rows(std::int64_t step) const { return cells_[index(step)].rows; }
  void let_go(std::int64_t step) { cell(step) = {}; }

 private:
  struct Cell {
    const std::int64_t* rows = nullptr;
    std::shared_ptr<const void> owner;
  };

  std::size_t index(std::int64_t step) const { return static_cast<std::size_t>(step) % cells_.size(); }
  Cell& cell(std::int64_t step) { return cells_[index(step)]; }

  std::vector<Cell> cells_;
};

}  // namespace frugal
