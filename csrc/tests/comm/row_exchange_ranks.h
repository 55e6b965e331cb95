// Ranks that exchange rows, in one process: their buffers, and which rows of a step are whose.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "comm/row_exchange.h"

namespace frugal::row_exchange_ranks {

class RowRanks {
 public:
  RowRanks(int ranks, std::int64_t max_rows, std::int64_t dim) : max_rows_(max_rows), dim_(dim) {
    const std::size_t bytes = kRankWordBytes + 2 * box_floats(max_rows, dim) * sizeof(float);
    for (int rank = 0; rank < ranks; ++rank) lines_.emplace_back(bytes / kExchangeLine);
  }

  int ranks() const { return static_cast<int>(lines_.size()); }
  std::int64_t dim() const { return dim_; }
  RowExchange of(int rank) {
    std::vector<char*> buffers;
    for (auto& lines : lines_) buffers.push_back(lines[0].bytes);
    return row_exchange(rank, buffers, &failed, max_rows_, dim_);
  }
  float* outbox(int rank) { return const_cast<float*>(of(rank).outbox[rank]); }
  const float* inbox(int rank) { return of(rank).inbox[rank]; }

  std::uint32_t failed = 0;

 private:
  struct alignas(kExchangeLine) Line {
    char bytes[kExchangeLine] = {};
  };
  const std::int64_t max_rows_, dim_;
  std::vector<std::vector<Line>> lines_;
};

// How many rows each rank has of each owner in a step: [rank][owner], at most `most`, at times none.
inline std::vector<std::vector<std::int64_t>> counts_of(int ranks, std::int64_t most, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::vector<std::int64_t>> counts(static_cast<std::size_t>(ranks));
  for (auto& of_rank : counts)
    for (int owner = 0; owner < ranks; ++owner)
      of_rank.push_back(random() % 4 == 0 ? 0 : static_cast<std::int64_t>(random() % static_cast<unsigned>(most + 1)));
  return counts;
}

inline OwnedRows owned_by(int owner, const std::vector<std::vector<std::int64_t>>& counts) {
  OwnedRows owned{};
  for (std::size_t rank = 0; rank < counts.size(); ++rank) {
    for (int before = 0; before < owner; ++before) owned.place[rank] += counts[rank][static_cast<std::size_t>(before)];
    owned.begin[rank + 1] = owned.begin[rank] + counts[rank][static_cast<std::size_t>(owner)];
  }
  return owned;
}

// What a row of a rank holds in a step: different for every number.
inline float value_of(int rank, int owner, std::int64_t row, std::int64_t column, std::int64_t step) {
  return static_cast<float>(((step * 8 + rank) * 8 + owner) * 4096 + row * 64 + column);
}

}  // namespace frugal::row_exchange_ranks
