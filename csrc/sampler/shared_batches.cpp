#include "sampler/shared_batches.h"

#include <exception>
#include <stdexcept>
#include <utility>

#include "base/parallel/start_thread.h"

namespace frugal {

SharedBatches::SharedBatches(std::shared_ptr<const BatchSource> source, std::shared_ptr<BatchRing> ring, int rank,
                             std::int64_t first_step, int makers)
    : source_(std::move(source)), ring_(std::move(ring)), rank_(rank), first_step_(first_step) {
  if (first_step < 0) throw std::invalid_argument("steps are counted from 0");
  if (makers < 1) throw std::invalid_argument("a rank needs at least one thread that makes batches");
  ring_->enter(rank);
  std::int64_t first = first_step;
  while (ring_->maker(first) != rank) ++first;
  next_.store(first, std::memory_order_relaxed);
  start_threads(makers_, makers, [this](int) { make(); }, [this] { close(); });
}

SharedBatches::~SharedBatches() { close(); }

void SharedBatches::make() const {
  SamplerScratch scratch = source_->scratch();
  Batch batch;
  try {
    while (true) {
      const std::int64_t step = next_.fetch_add(ring_->ranks(), std::memory_order_relaxed);
      bool written;
      try {
        source_->sample(step, batch, scratch);
        written = ring_->write(step, first_step_, batch, stopping_);
      } catch (const RankLost&) {
        throw;
      } catch (const std::exception& error) {
        written = ring_->write_error(step, first_step_, error, stopping_);
      }
      if (!written) return;
    }
  } catch (const RankLost&) {  // whoever reads the next step hears of it too
  }
}

void SharedBatches::sample(std::int64_t step, Batch& batch, SamplerScratch&) const {
  if (!ring_->read(rank_, step, batch, stopping_)) throw std::runtime_error("the batches are closed");
}

void SharedBatches::close() const {
  stopping_.store(true, std::memory_order_release);
  ring_->wake();
  const std::lock_guard lock(closing_);
  if (has_left_) return;
  has_left_ = true;
  for (std::thread& maker : makers_) maker.join();
  makers_.clear();
  ring_->leave(rank_);
}

}  // namespace frugal
