#include "engine/in_order_flusher.h"

#include <span>

namespace frugal {

InOrderFlusher::InOrderFlusher(const EngineConfig& config, std::shared_ptr<Segment> segment)
    : segment_(std::move(segment)), inbox_(segment_->shape().window + 2), writer_(config, segment_) {
  segment_->opened(0).value.store(1, std::memory_order_release);  // nothing is pending before step 0
}

void InOrderFlusher::run(const std::atomic<bool>& stopping) {
  RoleScope scope(thread_);
  const std::int64_t poll = segment_->shape().poll_microseconds;
  while (!stopping.load(std::memory_order_acquire) && !segment_->failed()) {
    const std::uint32_t ticket = segment_->work().ticket();
    const StepOperations* step = inbox_.front();
    bool published = step != nullptr;
    for (int r = 0; published && r < segment_->shape().ranks; ++r)
      published =
          static_cast<std::int64_t>(segment_->rank(r).published.value.load(std::memory_order_acquire)) > step->step;
    if (published) {
      apply(*step);
      segment_->opened(0).value.store(static_cast<std::uint64_t>(step->step) + 2, std::memory_order_release);
      inbox_.pop();
      segment_->gate().notify();
      segment_->planning().notify();
    } else {
      segment_->work().wait(ticket, poll > 0 ? poll : 100'000);
    }
  }
}

void InOrderFlusher::apply(const StepOperations& step) {
  for (const Operation& operation : step.operations) {
    if (operation.kind == Operation::Kind::kValue) {
      writer_.write_value(operation.row, operation.rank, operation.position);
      segment_->block(operation.rank, step.step).remaining.fetch_sub(1, std::memory_order_acq_rel);
      add(counters_.values, 1);
      add(counters_.bytes, writer_.value_bytes());
    } else if (operation.kind == Operation::Kind::kGradient) {
      const std::span sources(step.sources.data() + operation.first_source, operation.sources);
      add(counters_.bytes, writer_.apply_gradients(operation.row, step.step, sources));
      add(counters_.gradients, 1);
      for (const GradientSource& source : sources)
        if (source.entry == 0)
          segment_->block(source.rank, step.step).remaining.fetch_sub(1, std::memory_order_acq_rel);
    }
  }
}

}  // namespace frugal
