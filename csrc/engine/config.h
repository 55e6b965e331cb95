// The settings of an engine. One engine serves one table; a trainer has one for entities and may have one for
// relations.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/random/rounding_noise.h"
#include "engine/cache_policy.h"
#include "table/row_layout.h"
#include "table/row_update.h"

namespace frugal {

// How new values reach their host rows.
enum class FlushMode : std::uint8_t {
  kDirect,  // executors store them there, in their own order of work, which keeps reads behind stores: no gate waits,
            // and there are no flush workers. Several ranks synchronise in each step: each executor waits, before it
            // reads for a step, until all have done the step before, with the write-backs asked for by then and the
            // rows published before the synchronisation, and the write-back of the one before that; all gradients that
            // they send in a step are applied by one of them (comm/shared_rows.h)
  kP2F,     // through staging and flush workers, by next use; a step waits only for the rows that it reads
  kSync,    // the same, but every record of a step lands before the next step
};

struct EngineConfig {
  int ranks = 1;
  bool same_steps = false;  // all ranks run the same steps, each on columns of its own of every row: rank 0 registers
                            // the rows, one plan, by one cache policy, serves all, and they do not synchronise. For
                            // kDirect
  int lookahead = 10;     // L >= 1: step t may be registered when its rank has published step t - L - 1
  int planner_threads = 0;  // that look up the rows of a step; 0: by the cores of the process
  int flush_threads = 2;    // F >= 1: one thread is one flush worker, the only writer of its rows
  FlushMode mode = FlushMode::kP2F;

  RowLayout layout{};                       // of a host row and of a value in staging; gradients there are in floats
  std::int64_t rows = 0;                    // of the table
  float* host_rows = nullptr;               // rows * layout.stride floats, as the engine's process sees them
  std::int64_t max_rows_per_step = 0;       // unique rows of one rank in one step, at most
  int write_back_steps = 0;                  // > 0, where reads follow stores: a value that leaves for its host row
                                             // waits in a write-back buffer of so many times max_rows_per_step
                                             // slots, which are used in turn; they lie behind the cache and one
                                             // slot for padding. 3 at most with in-step synchronisation
  bool evicts_to_buffer = false;            // rows that a cache evicts wait in that buffer, too, and are written
                                            // back with the step (StepPlan::evicted): nobody is asked to. One
                                            // plan for all ranks
  bool keeps_reused = false;  // a value stays in its slot if a step within write_back_steps, and within the
                              // horizon, uses the row again. Not with in-step synchronisation
  int entries = 2;                          // entries of a step: 2 for entities (positives, negatives), 1 for relations
  std::int64_t staging_bytes = 0;           // per rank; 0: 8 steps of max_rows_per_step values, if any
  int horizon = 0;                          // a step is planned when this many later ones are registered (for
                                            // keeps_reused)
  std::int64_t poll_microseconds = 0;       // > 0: flush threads look at the counters this often even if nobody wakes
                                            // them; needed where a device advances the counters
  double attach_seconds = 300;              // how long ranks that train wait for one that has never attached
  std::shared_ptr<const RowUpdate> update;  // applies gradients at the host
  Rounding rounding{};                      // by what a row in half precision is then rounded, once a step
  std::vector<std::shared_ptr<CachePolicy>> caches;  // one per rank, one for all that share a plan, or empty: no caches

  // For executors on devices, whose hosts enqueue steps ahead. Where `evicts`, caches that change evict in flight.
  void run_on_devices(bool evicts);
};

inline constexpr int kStepsOnDevice = 3;  // one is prefetched, one computes, one is written back
inline constexpr int kStepsEnqueued = 3;  // that a host may enqueue beyond the one that its device runs
inline constexpr int kStepsApart = 8;  // that ranks with the same steps may be, before rank 0, which registers, waits

}  // namespace frugal
