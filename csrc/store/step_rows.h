// Where a step on the CPU finds its rows and leaves them. The step works on pointers and does not know whether a row lies
// in the host table, in a cache or in staging.
#pragma once

#include <cstdint>
#include <span>

#include "memory/row_layout.h"

namespace frugal {

class StepRows {
 public:
  virtual ~StepRows() = default;

  virtual const RowLayout& layout() const = 0;

  // Step `step` will use `rows` (ascending, distinct). Steps are announced in order, each once, at most the lookahead
  // beyond the running one. Copies the list.
  virtual void announce(std::int64_t step, std::span<const std::int64_t> rows) = 0;

  // Waits until the rows of `step` may be read. Steps begin in order; rows(), source() and destination() then belong to
  // it until end().
  virtual void begin(std::int64_t step) = 0;

  virtual std::span<const std::int64_t> rows() const = 0;          // (U,) as announced
  virtual std::span<const float* const> source() const = 0;        // (U,) records to read: layout().stride floats each
  virtual std::span<float* const> destination() const = 0;         // (U,) records to write, all of them; may equal source

  // All destinations are written.
  virtual void end() = 0;

  // Between two steps: waits until the host table holds every update.
  virtual void drain() = 0;
};

}  // namespace frugal
