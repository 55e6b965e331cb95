#include "sampler/batch_stream.h"

#include <chrono>
#include <stdexcept>
#include <utility>

#include "base/parallel/start_thread.h"

namespace frugal {

// Batches nobody uses, for the sake of their memory. Outlives the stream as long as a batch is held.
struct BatchStream::Pool : std::enable_shared_from_this<BatchStream::Pool> {
  std::mutex mutex;
  std::vector<std::unique_ptr<Batch>> unused;  // guarded by mutex, like the next
  std::size_t batches = 0;                     // in use or not; there is room in `unused` for all of them

  std::shared_ptr<Batch> take() {
    std::unique_ptr<Batch> batch;
    {
      const std::lock_guard lock(mutex);
      if (!unused.empty()) {
        batch = std::move(unused.back());
        unused.pop_back();
      } else {
        batch = std::make_unique<Batch>();
        unused.reserve(++batches);
      }
    }
    // The batch keeps what this pointer shares, and with it the deleter, until it has another pointer: so the deleter
    // gives up the pool, which would else hold itself by the batches in it.
    return {batch.release(), [pool = shared_from_this()](Batch* used) mutable {
              const std::shared_ptr<Pool> mine = std::move(pool);
              std::unique_ptr<Batch> owned(used);
              owned->packed.reset();
              const std::lock_guard lock(mine->mutex);
              mine->unused.push_back(std::move(owned));
            }};
  }
};

BatchStream::BatchStream(std::shared_ptr<const BatchSource> source, std::int64_t first_step, int threads, int lookahead,
                         Packer packer)
    : source_(std::move(source)),
      pool_(std::make_shared<Pool>()),
      packer_(std::move(packer)),
      next_made_(first_step),
      next_taken_(first_step) {
  if (first_step < 0) throw std::invalid_argument("steps are counted from 0");
  if (threads < 1) throw std::invalid_argument("a batch stream needs at least one thread");
  if (lookahead < 1) throw std::invalid_argument("a batch stream needs a lookahead of at least 1");
  ring_.resize(lookahead);
  start_threads(threads_, threads, [this](int) { work(); }, [this] { close(); });
}

BatchStream::~BatchStream() { close(); }

void BatchStream::close() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  source_->close();
  made_.notify_all();
  taken_.notify_all();
  for (auto& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

void BatchStream::work() {
  SamplerScratch scratch = source_->scratch();
  std::unique_lock lock(mutex_);
  for (;;) {
    taken_.wait(lock, [&] { return stopping_ || next_made_ < next_taken_ + static_cast<std::int64_t>(ring_.size()); });
    if (stopping_) return;
    const std::int64_t step = next_made_++;
    lock.unlock();
    Place made;
    try {
      auto batch = pool_->take();
      source_->sample(step, *batch, scratch);
      if (packer_) batch->packed = packer_(*batch);
      made.batch = std::move(batch);
    } catch (...) {
      made.error = std::current_exception();
    }
    lock.lock();
    place(step) = std::move(made);
    if (step == next_taken_) made_.notify_one();
  }
}

std::shared_ptr<const Batch> BatchStream::next() {
  std::unique_lock lock(mutex_);
  Place& next = place(next_taken_);
  const auto ready = [&] { return stopping_ || next.batch || next.error; };
  if (!ready()) {
    const auto start = std::chrono::steady_clock::now();
    made_.wait(lock, ready);
    wait_seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  if (stopping_) throw std::runtime_error("the batch stream is closed");
  if (next.error) std::rethrow_exception(next.error);
  auto batch = std::move(next.batch);
  next.batch.reset();
  ++next_taken_;
  // To wake a thread takes a system call, so they are woken for half a ring at a time.
  const bool few = next_made_ - next_taken_ <= static_cast<std::int64_t>(ring_.size()) / 2;
  lock.unlock();
  if (few) taken_.notify_all();
  return batch;
}

double BatchStream::wait_seconds() const {
  const std::lock_guard lock(mutex_);
  return wait_seconds_;
}

}  // namespace frugal
