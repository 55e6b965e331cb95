// Batches that processes of one machine make for each other: each step's by one rank, read by all.
//
// A ring of cells in memory that the ranks share. The batch of step s is written by rank s % ranks into cell
// s % cells; the number of cells is a multiple of that of ranks, so that a cell has one writer. It is written again
// when all ranks have read it. Which rank makes a batch, and when, does not show in it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/parallel/event.h"
#include "base/parallel/shared_mapping.h"
#include "sampler/batch_source.h"

namespace frugal {

// A rank that others wait for has ended or left.
class RankLost : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class BatchRing {
 public:
  static constexpr int kMaxRanks = 64;

  // For `ranks` ranks and batches within `limits`; seen by this process, and by processes that attach. The memory has
  // no name in a file system, so that nothing is left behind. Throws std::invalid_argument for a wrong number of ranks,
  // std::runtime_error if there is no memory.
  BatchRing(int ranks, const BatchLimits& limits);
  // The ring of another process, by its path there. Throws std::runtime_error if there is none.
  explicit BatchRing(const std::string& path);
  BatchRing(const BatchRing&) = delete;
  BatchRing& operator=(const BatchRing&) = delete;

  const std::string& path() const { return memory_.path(); }
  int ranks() const;
  std::int64_t cells() const;
  std::int64_t bytes() const { return memory_.bytes(); }
  int maker(std::int64_t step) const { return static_cast<int>(step % ranks()); }

  // A rank comes, before its first step, and leaves, after its last. A rank that ends without leaving is noticed.
  void enter(int rank);
  void leave(int rank);

  // Rank maker(step): hands the batch to all ranks, if all have read what was in the cell. Its steps from first_step on
  // come each once, and no step may be written by two threads.
  bool try_write(std::int64_t step, std::int64_t first_step, const Batch& batch);
  // The batch of the step cannot be made: whoever reads it gets the error.
  bool try_write_error(std::int64_t step, std::int64_t first_step, const std::exception& error);
  // Each rank, each step once: false if it is not there yet. Throws the error of write_error.
  bool try_read(int rank, std::int64_t step, Batch& batch);

  // The same, waiting. They return false once `stopping` (call wake() after setting it), and throw RankLost, with a
  // sentence, if the process of a rank has ended, or the step's maker has left or has not come for `attach_seconds`.
  bool write(std::int64_t step, std::int64_t first_step, const Batch& batch, const std::atomic<bool>& stopping);
  bool write_error(std::int64_t step, std::int64_t first_step, const std::exception& error,
                   const std::atomic<bool>& stopping);
  bool read(int rank, std::int64_t step, Batch& batch, const std::atomic<bool>& stopping);
  void wake();

  double attach_seconds = 300;

 private:
  struct Header;
  struct Cell;
  Header& header() const { return *reinterpret_cast<Header*>(memory_.data()); }
  Cell& cell(std::int64_t step) const;
  bool has_room(std::int64_t step, std::int64_t first_step) const;
  void publish(std::int64_t step);
  void check_ranks(std::int64_t step, double waited);
  bool has_ended(int rank, std::int32_t pid);
  template <class Try>
  bool wait(Event& event, std::int64_t step, const std::atomic<bool>& stopping, Try attempt);

  SharedMapping memory_;
  std::mutex mutex_;
  std::vector<OtherProcess> processes_;  // of the ranks; guarded by mutex_
};

}  // namespace frugal
