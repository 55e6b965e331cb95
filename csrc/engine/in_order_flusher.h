// Mode off: the reference. One thread applies the records of a step in the order in which they were planned, once all
// ranks have published the step, and then opens the next one. No queue, no caches, nothing out of order.
#pragma once

#include <memory>

#include "base/parallel/thread_safety.h"
#include "engine/flusher.h"
#include "engine/record_writer.h"

namespace frugal {

class InOrderFlusher final : public Flusher {
 public:
  InOrderFlusher(const EngineConfig& config, std::shared_ptr<Segment> segment);
  Inbox& inbox() override { return inbox_; }
  void run(const std::atomic<bool>& stopping) override;
  const FlushCounters& counters() const override { return counters_; }

 private:
  void apply(const StepOperations& step) FRUGAL_REQUIRES(thread_);

  const std::shared_ptr<Segment> segment_;
  Inbox inbox_;
  FlushCounters counters_;
  ThreadRole thread_;
  RecordWriter writer_ FRUGAL_GUARDED_BY(thread_);
};

}  // namespace frugal
