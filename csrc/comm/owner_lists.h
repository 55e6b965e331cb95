// Which rows the steps of several ranks use, as each row's owner gets to know them. Row r belongs to rank r % ranks,
// which works on it for all ranks.
//
// Each rank posts the rows of its steps, in the order of steps, some steps ahead; and takes, of each step, the rows
// that it owns, of all ranks in their order. A cell of a rank has room for one step, and is used again when all ranks
// have taken that step. A rank that only posts does not wait as long as no rank is more than `steps` ahead of another;
// so ranks that look ahead differently far do not wait for each other in a circle.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/parallel/shared_mapping.h"
#include "comm/host_exchange.h"

namespace frugal {

class OwnerLists {
 public:
  // segment: of bytes_needed(...) bytes, 128-byte aligned, zeroed before the first rank comes, the same memory for all
  // ranks, whose processes are watched; must outlive this. steps: that a rank may post before another has taken the
  // first. max_rows: of a step. Throws std::invalid_argument for what does not fit.
  OwnerLists(std::byte* segment, std::size_t bytes, int rank, int ranks, std::int64_t steps, std::int64_t max_rows);
  ~OwnerLists();
  OwnerLists(const OwnerLists&) = delete;
  OwnerLists& operator=(const OwnerLists&) = delete;

  static std::size_t bytes_needed(int ranks, std::int64_t steps, std::int64_t max_rows);

  // What follows throws std::runtime_error with the sentence of whoever failed, or of a rank that has gone.

  // This rank's next step uses `rows`: the rows of owner 0 come first, then the rows of owner 1, ... Waits for room.
  void post(std::span<const std::int64_t> rows);
  // Whether `take` would return at once.
  bool ready();
  // Of the next step that this rank has not taken: the rows that it owns, those of rank 0 first. counts: how many rows
  // each rank has there (ranks numbers), and how many of this rank's rows each owner has (ranks numbers).
  void take(std::vector<std::int64_t>& rows, std::vector<std::int64_t>& counts);
  // This rank runs its next step.
  void begin();
  // Between two steps: waits until all ranks have come here. A rank that goes on with its next step instead fails.
  void meet();
  // Ends the waiting of all ranks, with the first sentence that anybody gives.
  void fail(const std::string& sentence) { failure_->fail(sentence); }

 private:
  struct alignas(kExchangeLine) Rank {
    std::uint64_t posted, taken, begun, met;
    std::int32_t pid;  // 0: not there yet; -1: it has left
  };

  Rank& word(int rank) { return words_[rank]; }
  std::int64_t* cell(int rank, std::int64_t step);
  // Until ready(other rank) holds for all others.
  template <class Ready>
  void wait(Ready ready);
  void check();
  void look_at(int rank);

  ExchangeWords* failure_;
  Rank* words_;
  std::int64_t* cells_;
  const int rank_, ranks_;
  const std::int64_t steps_, max_rows_;
  std::int64_t posted_ = 0, taken_ = 0, begun_ = 0, met_ = 0;
  std::vector<OtherProcess> processes_;  // of the ranks
};

}  // namespace frugal
