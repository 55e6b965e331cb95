// The work of an executor (a CPU loop, a GPU kernel) for one rank and one step, decided before the step runs.
//
// The executor follows a plan blindly and looks nothing up. Everything here points into the engine's segment and stays
// valid until the rank publishes the step. Nobody changes a plan that is decided.
#pragma once

#include <cstdint>
#include <span>

namespace frugal {

inline constexpr std::int32_t kFromHost = -1;  // StepPlan::source of a row that is read from host memory
inline constexpr std::int32_t kFromHostLate = -2;  // the same, not before the first collective of the step
inline constexpr std::int64_t kLateSteps = 4;      // a row is such if one of so many steps before has changed it

// The destination of a row after a step has used it.
enum class RowDestination : std::uint8_t {
  kCache = 0,     // updated by the executor in slot `target`, of the cache or, until a step that is near, of the
                  // write-back buffer; nothing travels
  kValue = 1,     // updated by the executor; the new record (dim floats and state) goes to staging at float `target`
  kGradient = 2,  // not updated; the row's gradients go to staging at float `target`: those of entry 0 in order, then
                  // those of entry 1, ..., each layout.stride floats apart
  kHostRow = 3,   // updated by the executor, which stores the record into its host row, `target`
  kWriteBackBuffer = 4,  // the same with a write-back buffer (EngineConfig::write_back_steps), but the executor leaves
                         // it in slot `target` of the buffer, from where it is written back while the next steps run
  kPublishedBeforeSync = 5,  // the same, but with in-step synchronisation, and another rank reads the row in the next
                             // step: the value is in its host row before the first collective of that step
};

// Where the arrays of a plan lie in its cell of the segment, in bytes: one stretch, so that one copy takes it to a
// device. They are as long as a step can have rows. What is behind the step's rows pads them: row 0, which is read from
// and written to the slot behind the cache.
struct PlanFields {
  std::int64_t rows, target, published, source, leave, bytes;  // published: one number, that of the step plus one
  // Of StepPlan::evicted; and one number, the step's first slot of the write-back buffer. -1: there are none.
  std::int64_t evicted = -1, first_buffer_slot = -1;

  static constexpr PlanFields of(std::int64_t max_rows, bool evicts) {
    PlanFields fields{};
    const auto place = [&fields](std::int64_t size) {
      const std::int64_t begin = fields.bytes;
      fields.bytes += (size + 127) / 128 * 128;
      return begin;
    };
    fields.rows = place(max_rows * 8);
    fields.target = place(max_rows * 8);
    fields.published = place(8);
    fields.source = place(max_rows * 4);
    fields.leave = place(max_rows);
    if (evicts) {
      fields.evicted = place(max_rows * 8);
      fields.first_buffer_slot = place(8);
    }
    return fields;
  }
};

struct StepPlan {
  std::int64_t step = -1;
  std::span<const std::int64_t> rows;    // (U,) ascending, as registered
  std::span<const std::int32_t> source;  // (U,) slot of this rank's cache or write-back buffer, or from host
  std::span<const RowDestination> leave;  // (U,)
  std::span<const std::int64_t> target;   // (U,) see RowDestination
  // (U,), or empty where caches evict nothing or ask for write-backs. The row whose place in the cache row u takes, -1:
  // none. When the step has read its rows, and before it writes any, that row's record is copied from slot target[u] to
  // the u-th slot of the step in the write-back buffer, from where it is written back as by kWriteBackBuffer.
  std::span<const std::int64_t> evicted = {};
};

// A cached row that has to leave: copy its record from the slot to `target` (as RowDestination::kValue or
// RowDestination::kHostRow). It must leave before the step that follows overwrites its slot, and it cannot leave before
// step `after` has run.
struct WriteBack {
  std::int64_t row;
  std::int64_t after;   // last step of this rank that changes the row; -1: none did
  std::int64_t target;  // float in this rank's staging, or the row itself if leave is kHostRow
  std::int64_t block;   // the step whose plan asked for it: it leaves before that step's gate at the latest
  std::int32_t slot;
  RowDestination leave;  // kValue or kHostRow
};

// A row whose newest value lies in a slot at this moment, of the cache or of the write-back buffer (see
// EngineClient::drain).
struct CachedRow {
  std::int64_t row;
  std::int32_t slot;
};

}  // namespace frugal
