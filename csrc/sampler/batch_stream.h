// Batches in the order of steps, made ahead of their use by background threads.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "sampler/batch_source.h"

namespace frugal {

// One consumer. The batches and their order do not depend on the number of threads or on timing, and neither does the
// step at which an error appears.
class BatchStream {
 public:
  // Further work on each batch where it is made, for Batch::packed; called by several threads.
  using Packer = std::function<std::shared_ptr<void>(const Batch&)>;

  // At most `lookahead` batches wait for the consumer at a time; those it holds do not count. Throws
  // std::invalid_argument if first_step < 0, threads < 1 or lookahead < 1.
  BatchStream(std::shared_ptr<const BatchSource> source, std::int64_t first_step, int threads, int lookahead,
              Packer packer = nullptr);
  ~BatchStream();
  BatchStream(const BatchStream&) = delete;
  BatchStream& operator=(const BatchStream&) = delete;

  // The batch of the next step. Its memory is used again when the last copy of the pointer is gone; until then it does
  // not change, even if the stream is gone before. If a batch cannot be made, its error is thrown here, and at every
  // call after that. Throws std::runtime_error once the stream is closed.
  std::shared_ptr<const Batch> next();

  // Stops and joins the threads; also wakes a waiting next(). May be called again.
  void close();

  double wait_seconds() const;  // how long next() has waited for a batch, in all

 private:
  struct Pool;
  struct Place {
    std::shared_ptr<const Batch> batch;
    std::exception_ptr error;
  };

  void work();
  Place& place(std::int64_t step) { return ring_[step % static_cast<std::int64_t>(ring_.size())]; }

  const std::shared_ptr<const BatchSource> source_;
  const std::shared_ptr<Pool> pool_;
  const Packer packer_;
  mutable std::mutex mutex_;
  std::condition_variable made_, taken_;
  std::vector<Place> ring_;                 // guarded by mutex_, like all below but threads_
  std::int64_t next_made_, next_taken_;     // next_taken_ <= next_made_ <= next_taken_ + lookahead
  bool stopping_ = false;
  double wait_seconds_ = 0;
  std::vector<std::thread> threads_;
};

}  // namespace frugal
