// One rank's part in making batches that all ranks of a machine train on.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "sampler/batch_ring.h"
#include "sampler/batch_source.h"

namespace frugal {

// Threads make the steps of this rank ahead and hand them to all ranks; sample() reads what a rank has handed out, its
// own steps included. So each batch is made once for all processes, and one copy of it is what it costs the others.
//
// Each step is sampled once, in order of steps or nearly so: by the threads of one BatchStream.
class SharedBatches final : public BatchSource {
 public:
  // source: the same on all ranks. makers: threads. All ranks begin with first_step. Throws std::invalid_argument.
  SharedBatches(std::shared_ptr<const BatchSource> source, std::shared_ptr<BatchRing> ring, int rank,
                std::int64_t first_step, int makers);
  ~SharedBatches() override;

  SamplerScratch scratch() const override { return source_->scratch(); }
  BatchLimits limits() const override { return source_->limits(); }
  // Throws what making the step threw, RankLost, or std::runtime_error once closed.
  void sample(std::int64_t step, Batch& batch, SamplerScratch& scratch) const override;
  void close() const override;

 private:
  void make() const;

  const std::shared_ptr<const BatchSource> source_;
  const std::shared_ptr<BatchRing> ring_;
  const int rank_;
  const std::int64_t first_step_;
  mutable std::atomic<std::int64_t> next_;  // step of this rank that nobody makes yet
  mutable std::atomic<bool> stopping_{false};
  mutable std::mutex closing_;
  mutable std::vector<std::thread> makers_;  // guarded by closing_, as the next one
  mutable bool has_left_ = false;
};

}  // namespace frugal
