// The P2F engine: plans what travels, flushes it in the background by next use, and opens a step's gate when it may
// open. See docs/p2f.md. No CUDA, no Python, no torch.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/config.h"
#include "engine/engine_client.h"

namespace frugal {

struct FlushWorkerStatistics {
  std::int64_t flushed_rows = 0, flushed_bytes = 0;  // landed records
  std::int64_t values = 0, gradients = 0;            // of them
};

struct EngineStatistics {
  std::vector<RankStatistics> ranks;
  std::vector<FlushWorkerStatistics> workers;
  std::int64_t planned_steps = 0;
  std::int64_t planning_nanoseconds = 0;
  std::int64_t engine_bytes = 0;  // of the segment, the planner's cells and what flush workers keep
};

class Engine {
 public:
  // Starts the planner and the flush threads. shared: the segment can be attached by other processes (memfd; it has no
  // name, so nothing can be left behind). Throws std::invalid_argument with a sentence for a bad configuration.
  explicit Engine(EngineConfig config, bool shared = false);
  // Stops the threads; what has not landed is lost unless the ranks drained. Ranks that still wait get an EngineError.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // What segment and planner of an engine take. Of caches it reads what is constant.
  static std::int64_t bytes_of(const EngineConfig& config);

  const EngineConfig& config() const;
  // The client of a rank that lives in this process.
  EngineClient& client(int rank);
  // One that may outlive the engine, and is owned elsewhere; there may be no other of this rank.
  std::unique_ptr<EngineClient> make_client(int rank) const;
  // It has the sticky error, and the path for EngineClients in other processes:
  // EngineClient(Segment::attach(path), rank).
  std::shared_ptr<Segment> segment() const;

  EngineStatistics statistics() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace frugal
