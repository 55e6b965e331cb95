// Where a step on the CPU finds its rows and leaves them. The step works on pointers and does not know whether a row
// lies in the host table, in a cache or in staging.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "table/row_layout.h"

namespace frugal {

class StepRows {
 public:
  virtual ~StepRows() = default;

  virtual const RowLayout& layout() const = 0;

  // Step `step` will use `rows` (ascending, distinct). Steps are announced in order, from any first one, each once, at
  // most the lookahead beyond the running one. occurrences: for each entry of the step, for each row, how many
  // gradients it will have there; may be empty where one rank trains alone. Copies both.
  virtual void announce(std::int64_t step, std::span<const std::int64_t> rows,
                        std::span<const std::int32_t> occurrences) = 0;

  // Waits until the rows of `step` may be read. Steps begin in order; rows(), source() and destination() then belong to
  // it until end().
  virtual void begin(std::int64_t step) = 0;

  virtual std::span<const std::int64_t> rows() const = 0;     // (U,) as announced
  virtual std::span<float* const> source() const = 0;         // (U,) records to read: layout().stride floats each
  virtual std::span<float* const> destination() const = 0;    // (U,) records to write, all of them; may equal source
  // (U,) where a row is not to be updated, because other ranks change it in the same step: room for its gradients,
  // those of entry 0 in order, then those of entry 1, ..., layout().stride floats apart; its destination is nullptr.
  // nullptr for every other row. May be empty where one rank trains alone.
  virtual std::span<float* const> gradient() const { return {}; }
  // (U,) not 0 where a row is to be written before the others, since the next step uses it. May be empty.
  virtual std::span<const std::uint8_t> early() const { return {}; }

  // All destinations and gradients are written.
  virtual void end() = 0;

  // Between two steps: waits until the host table holds every update.
  virtual void drain() = 0;
};

// For steps that update rows bit by bit: copies each record that is to be written somewhere else there first.
void copy_to_destination(const StepRows& rows);

// records[i] = from[u], where rows.rows()[u] == ids[i]; from: rows.source() or rows.destination(). Throws
// std::out_of_range for an id that was not announced for the running step.
std::vector<float*> find_records(const StepRows& rows, std::span<float* const> from, const std::int64_t* ids,
                                 std::int64_t count);

// Where the gradients of one entry go, for steps that update rows bit by bit: each is applied to a record here, or
// copied to where it leaves. Exactly one of the two pointers of an occurrence is not nullptr.
struct EntryTargets {
  std::vector<float*> record;
  std::vector<float*> gradient;
};

// The targets of the occurrences of an entry. sent: (U,) how many gradients of each row the entries before it had, to
// which those of this one are added. Throws std::out_of_range as find_records does.
EntryTargets find_targets(const StepRows& rows, const std::int64_t* ids, std::int64_t count,
                          std::span<std::int64_t> sent);

}  // namespace frugal
